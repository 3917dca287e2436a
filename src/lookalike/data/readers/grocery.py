"""Grocery Store (Klasson et al. 2019): 81 fine classes of groceries in 43 coarse ones.

Its own train/val/test parts share all classes (they are for classification), so they are not taken over:
classes are held out instead.
"""

from pathlib import Path

import numpy as np
import polars as pl

from lookalike.data.dataset import CoarseLevel, LabeledImages
from lookalike.data.readers.files import check_counts, images_below
from lookalike.errors import DataError

COUNTS = {"images": 5421, "fine classes": 81, "coarse classes": 43}
PARTS = ("train", "val", "test")
FINE, COARSE = "Class Name (str)", "Coarse Class Name (str)"
HEADER = f"{FINE},Class ID (int),{COARSE}"


def recognizes(folder: Path) -> bool:
    """Its list of classes, by the header."""
    file = folder / "classes.csv"
    if not file.is_file():
        return False
    with open(file, encoding="utf-8-sig", errors="replace") as stream:
        return stream.readline().startswith(HEADER)


def read(folder: Path, *, verify: bool = True) -> LabeledImages:
    """The data set: the class of an image is its folder's name, in the order of classes.csv."""
    rows = pl.read_csv(folder / "classes.csv", infer_schema=False)
    names = tuple(rows[FINE].to_list())
    kinds = tuple(dict.fromkeys(rows[COARSE].to_list()))
    number = {name: i for i, name in enumerate(names)}
    parts = [part for part in PARTS if (folder / part).is_dir()]
    paths = [f"{part}/{path}" for part in parts for path in images_below(folder / part)]
    classes = [path.split("/")[-2] for path in paths]
    unknown = next((i for i, name in enumerate(classes) if name not in number), None)
    if unknown is not None:
        raise DataError(
            f"grocery: {paths[unknown]} lies in no class of classes.csv; unpack the archive again"
        )
    labels = np.array([number[name] for name in classes], dtype=np.int64)
    parents = np.array([kinds.index(kind) for kind in rows[COARSE].to_list()], dtype=np.int64)
    if verify:
        found = {"images": len(paths), "fine classes": len(set(classes)), "coarse classes": len(kinds)}
        check_counts("grocery", found, COUNTS)
    level = CoarseLevel("coarse", parents, kinds)
    return LabeledImages(folder, tuple(paths), labels, names, (level,), name="grocery")
