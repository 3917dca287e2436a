"""Joins the tables of several parts (train, test, query, ...) to one data set."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lookalike.data.dataset import CoarseLevel, LabeledImages, number_labels
from lookalike.data.readers.folder import Part
from lookalike.errors import DataError


def path_below(table: LabeledImages, path: str, folder: Path) -> str:
    """A path of `table` as one relative to `folder` where it lies there."""
    whole = os.path.normpath(os.path.join(table.root.absolute(), path))
    home = os.path.join(os.path.normpath(folder.absolute()), "")
    return Path(whole[len(home) :] if whole.startswith(home) else whole).as_posix()


def merge_parts(root: Path, tables: Sequence[tuple[LabeledImages, Part]]) -> LabeledImages:
    """One data set below `root`; a table's own split or roles count before those of its part.

    Raises:
        DataError: an image in two tables, or a class with two parents.
    """
    paths = [path_below(table, path, root) for table, _ in tables for path in table.paths]
    if len(set(paths)) < len(paths):
        twice = Counter(paths).most_common(1)[0][0]
        raise DataError(f"{root}: {twice} is listed in two tables; list each image once")
    labels, names = number_labels([t.class_names[i] for t, _ in tables for i in t.labels.tolist()])
    split = [
        word for t, p in tables for word in (_words(t, p.split) if t.split is None else t.split.tolist())
    ]
    role = [word for t, p in tables for word in (_words(t, p.role) if t.role is None else t.role.tolist())]
    boxed = all(table.boxes is not None for table, _ in tables)
    return LabeledImages(
        root,
        tuple(paths),
        labels,
        names,
        coarse=_merge_coarse(root, [table for table, _ in tables], names),
        split=np.array(split, dtype=np.str_),
        role=None if set(role) == {"both"} else np.array(role, dtype=np.str_),
        boxes=np.concatenate([t.boxes for t, _ in tables if t.boxes is not None]) if boxed else None,
        name=root.name,
        notes=tuple(dict.fromkeys(note for table, _ in tables for note in table.notes)),
    )


def _words(table: LabeledImages, word: str) -> list[str]:
    return [word] * len(table)


def _merge_coarse(
    root: Path, tables: Sequence[LabeledImages], names: tuple[str, ...]
) -> tuple[CoarseLevel, ...]:
    """The coarse levels that all tables have."""
    shared = [level.name for level in tables[0].coarse]
    shared = [name for name in shared if all(name in {lv.name for lv in t.coarse} for t in tables)]
    result = []
    for level_name in shared:
        parent_of: dict[str, str] = {}
        for table in tables:
            level = next(level for level in table.coarse if level.name == level_name)
            for name, parent in zip(table.class_names, level.parents.tolist(), strict=True):
                if parent_of.setdefault(name, level.class_names[parent]) != level.class_names[parent]:
                    raise DataError(f"{root}: class '{name}' has two parents in {level_name}; give it one")
        parents, coarse_names = number_labels([parent_of[name] for name in names])
        result.append(CoarseLevel(level_name, parents, coarse_names))
    return tuple(result)
