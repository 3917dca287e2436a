"""CUB-200-2011 (Wah et al.): classes 1-100 train, 101-200 test.

The older CUB-200-2010 has the same class folders and half of the images; the reader recognizes and refuses it.
"""

import re
from pathlib import Path

import numpy as np

from lookalike.data.dataset import LabeledImages
from lookalike.data.readers.files import (
    check_counts,
    check_present,
    images_below,
    read_lines,
)
from lookalike.errors import DataError

FIRST_CLASS = "001.Black_footed_Albatross"
TRAIN_CLASSES = 100
COUNTS = {"training images": 5864, "test images": 5924, "classes": 200}
IMAGES_2010 = 6033


def recognizes(folder: Path) -> bool:
    """Its lists, or its class folders in `images/` or at the top."""
    lists = (folder / "images.txt").is_file() and (folder / "image_class_labels.txt").is_file()
    return lists or (folder / "images" / FIRST_CLASS).is_dir() or (folder / FIRST_CLASS).is_dir()


def read(folder: Path, *, verify: bool = True) -> LabeledImages:
    """The data set; the authors' own train/test list (for classification) plays no part."""
    at = "images/" if (folder / "images").is_dir() or (folder / "images.txt").is_file() else ""
    if (folder / "images.txt").is_file():
        paths = [at + path for path in _listed(folder / "images.txt")]
    else:
        paths = [at + path for path in images_below(folder / at)]
        _refuse_2010(folder, paths)
    classes = [path.split("/")[-2] for path in paths]
    wrong = [path for path, name in zip(paths, classes, strict=True) if not re.match(r"\d{3}\.", name)]
    if wrong:
        raise DataError(f"cub200: {wrong[0]} lies in no class folder like {FIRST_CLASS}; move it out")
    labels = np.array([int(name[:3]) - 1 for name in classes], dtype=np.int64)
    names = {int(name[:3]) - 1: name for name in classes}
    split = np.where(labels < TRAIN_CLASSES, "train", "test")
    if verify:
        found = {
            "training images": int((split == "train").sum()),
            "test images": int((split == "test").sum()),
            "classes": len(names),
        }
        check_counts("cub200", found, COUNTS)
        check_present("cub200", folder, paths, "unpack CUB_200_2011.tgz again")
    all_names = tuple(names.get(i, f"class {i + 1}") for i in range(max(names) + 1))
    return LabeledImages(folder, tuple(paths), labels, all_names, split=split, name="cub200")


def _listed(file: Path) -> list[str]:
    paths = []
    for number, line in read_lines(file):
        fields = line.split(maxsplit=1)
        if len(fields) != 2 or "/" not in fields[1]:
            raise DataError(f"{file}: line {number} is not 'image_id class_folder/image'")
        paths.append(fields[1])
    return paths


def _refuse_2010(folder: Path, paths: list[str]) -> None:
    beside = any(
        (at / name).is_dir() for at in (folder, folder.parent) for name in ("annotations-mat", "lists")
    )
    if len(paths) == IMAGES_2010 or beside:
        raise DataError(
            f"{folder}: this is CUB-200-2010 ({len(paths):,} images); published retrieval numbers are on "
            "CUB-200-2011 (11,788 images), fetch CUB_200_2011.tgz"
        )
