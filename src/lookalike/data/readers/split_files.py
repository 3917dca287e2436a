"""A split by classes as a small file, `split.csv`, that lies beside the images and can be replaced.

Two columns: label (a class name) and split (train, validation or test). It makes a split explicit, so that
two people, or two years, can be sure to mean the same one.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from lookalike.data.dataset import LabeledImages
from lookalike.data.readers.folder import PART_NAMES
from lookalike.data.readers.tables import read_frame
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
    if not {"label", "split"} <= set(frame.columns):
        raise DataError(f"{file}: has the columns {', '.join(frame.columns)}; expected label,split")
    part_of: dict[str, str] = {}
    for row, (label, word) in enumerate(frame.select("label", "split").iter_rows(), start=1):
        part = PART_NAMES.get((word or "").strip().casefold())
        if part is None:
            raise DataError(f"{file}: row {row} has split '{word}'; expected train, validation or test")
        if label not in table.class_names:
            hint = near_miss(str(label), table.class_names)
            raise DataError(f"{file}: row {row} names class '{label}', which {table.name} lacks{hint}")
        part_of[label] = part
    lacking = [name for name in table.class_names if name not in part_of]
    if lacking:
        raise DataError(
            f"{file}: {len(lacking)} classes have no row, first '{lacking[0]}'; list every class once"
        )
    parts = np.array([part_of[name] for name in table.class_names], dtype=np.str_)
    return replace(table, split=parts[table.labels])


def write_split_file(file: Path, parts: dict[str, LabeledImages]) -> None:
    """Writes which classes are in which part, as `with_split_file` reads it."""
    rows = [(name, part) for part, table in parts.items() for name in table.class_names]
    file.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows, schema=["label", "split"], orient="row").write_csv(file)
