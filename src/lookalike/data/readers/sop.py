"""Stanford Online Products (Song et al. 2016): 11,318 products train, 11,316 test, 12 super-classes."""

from pathlib import Path

import numpy as np

from lookalike.data.dataset import CoarseLevel, LabeledImages, number_labels
from lookalike.data.readers.files import check_counts, check_present, read_lines
from lookalike.errors import DataError

COUNTS = {
    "training images": 59551,
    "test images": 60502,
    "training classes": 11318,
    "test classes": 11316,
    "super-classes": 12,
}
LISTS = {"train": "Ebay_train.txt", "test": "Ebay_test.txt"}


def recognizes(folder: Path) -> bool:
    """Either of its two lists."""
    return _lists(folder) is not None


def read(folder: Path, *, verify: bool = True) -> LabeledImages:
    """The data set, classes in the official order; super-classes are called by their folder."""
    lists = _lists(folder)
    assert lists is not None
    root = folder / "images" if (folder / "images").is_dir() else folder
    paths: list[str] = []
    classes: list[int] = []
    words: list[str] = []
    for part, file in LISTS.items():
        if not (lists / file).is_file():
            raise DataError(f"sop: {file} is missing in {lists}; unpack Stanford_Online_Products.zip whole")
        for number, line in read_lines(lists / file)[1:]:
            fields = line.split(maxsplit=3)
            if len(fields) != 4 or not fields[1].isdecimal():
                raise DataError(
                    f"{lists / file}: line {number} is not 'image_id class_id super_class_id path'"
                )
            paths.append(fields[3])
            classes.append(int(fields[1]))
            words.append(part)
    split = np.array(words, dtype=np.str_)
    labels, names = number_labels([str(c) for c in classes])
    kinds = [path.partition("/")[0].removesuffix("_final") for path in paths]
    kind_of = dict(zip(labels.tolist(), kinds, strict=True))
    parents, kind_names = number_labels([kind_of[i] for i in range(len(names))])
    if verify:
        found = {
            "training images": words.count("train"),
            "test images": words.count("test"),
            "training classes": len(np.unique(labels[split == "train"])),
            "test classes": len(np.unique(labels[split == "test"])),
            "super-classes": len(kind_names),
        }
        check_counts("sop", found, COUNTS)
        check_present("sop", root, paths, "unpack Stanford_Online_Products.zip again")
    level = CoarseLevel("super_class", parents, kind_names)
    return LabeledImages(root, tuple(paths), labels, names, (level,), split, name="sop")


def _lists(folder: Path) -> Path | None:
    places = (folder, folder / "Info_Files")
    return next((at for at in places if any((at / file).is_file() for file in LISTS.values())), None)
