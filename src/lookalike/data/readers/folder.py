"""A folder of class folders: the class of an image is the folder it lies in."""

from pathlib import Path

import numpy as np

from lookalike.data.dataset import LabeledImages, number_labels
from lookalike.data.readers.files import images_below, inside_single_folder
from lookalike.errors import DataError

PART_NAMES = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
    "testing": "test",
}


def read_class_folders(folder: Path, *, labeled: bool = True) -> LabeledImages:
    """Images below `folder`; the class is the path of an image's folder, relative to `folder`.

    Folders may be nested (`birds/owl` is one class). Where every folder at the top is called train,
    validation (val) or test, those name the split and the classes lie below. With `labeled=False` images
    may also lie at the top; their class is then `.`.

    Raises:
        DataError: no images, or images outside class folders.
    """
    root = inside_single_folder(folder)
    paths = images_below(root)
    if not paths:
        raise DataError(f"{folder}: holds no images; expected {folder}/<class>/<image>.jpg")
    folders = [path.rpartition("/")[0] for path in paths]
    tops = {at.partition("/")[0] for at in folders}
    split = None
    if all(top.casefold() in PART_NAMES for top in tops):
        parts = [PART_NAMES[at.partition("/")[0].casefold()] for at in folders]
        folders = [at.partition("/")[2] for at in folders]
        split = np.array(parts, dtype=np.str_)
    if labeled and "" in folders:
        first = paths[folders.index("")]
        raise DataError(
            f"{root}: {folders.count('')} images lie outside class folders, first {first}; move each into "
            "a folder named after its class, or give a table with the columns path,label"
        )
    labels, names = number_labels([at or "." for at in folders])
    return LabeledImages(root, tuple(paths), labels, names, split=split, name=folder.name or "data")
