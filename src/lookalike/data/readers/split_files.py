"""Reads and writes `split.csv`, a split by classes as a file next to the images.

Two columns: label (a class name) and split (train, validation or test). The file makes a split explicit, so that
two people can be sure to mean the same one.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from lookalike.data.dataset import LabeledImages
from lookalike.data.readers.folder import part_of
from lookalike.data.readers.frames import read_frame
from lookalike.data.readers.write_frame import write_frame
from lookalike.errors import DataError
from lookalike.utils.validation import near_miss

SPLIT_FILE = "split.csv"


def with_split_file(table: LabeledImages, file: Path | None = None) -> LabeledImages:
    """The table with the split that `file` gives; without `file`, that of `split.csv` in its root, if any.

    Raises:
        DataError: a class without row, a row without class, or an unknown part; with the first of them.
    """
    if file is None:
        file = table.root / SPLIT_FILE
        if not file.is_file():
            return table
    frame = read_frame(file)
    label_column, split_column = frame.find("label"), frame.find("split")
    if label_column is None or split_column is None:
        raise DataError(
            f"{file}: has the columns {', '.join(frame.columns)}; expected label,split; rename any other file"
        )
    known = set(table.class_names)
    split_of: dict[str, str] = {}
    for at, (label, word) in enumerate(
        zip(frame.columns[label_column], frame.columns[split_column], strict=True)
    ):
        part = part_of(word or "")
        if part is None:
            raise DataError(f"{frame.where(at)} has split '{word}'; expected train, validation or test")
        if label not in known:
            hint = near_miss(str(label), known)
            raise DataError(f"{frame.where(at)} names class '{label}', which {table.name} lacks{hint}")
        split_of[label or ""] = part.split
    lacking = [name for name in table.class_names if name not in split_of]
    if lacking:
        raise DataError(
            f"{file}: {len(lacking)} classes have no row, first '{lacking[0]}'; list every class once"
        )
    splits = np.array([split_of[name] for name in table.class_names], dtype=np.str_)
    return replace(table, split=splits[table.labels])


def write_split_file(file: Path, parts: dict[str, LabeledImages]) -> None:
    """Writes which classes are in which part, as `with_split_file` reads it."""
    rows = [(name, part) for part, table in parts.items() for name in table.class_names]
    write_frame({"label": [name for name, _ in rows], "split": [part for _, part in rows]}, file)
