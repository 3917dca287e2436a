"""iNaturalist 2018 by species, with its super-classes (plants, insects, ...).

No official split into classes for retrieval exists. Whatever split is wanted is a file beside the images:
`split.csv` with the columns label,split (as for any data set), or the two lists in circulation,
`Inaturalist_train_set1.txt` and `Inaturalist_test_set1.txt`, one image a line. Without one the data has no
split and classes are held out.
"""

import json
from pathlib import Path

import numpy as np

from lookalike.data.dataset import CoarseLevel, LabeledImages, Words, number_labels
from lookalike.data.readers.files import check_counts, images_below, read_lines
from lookalike.errors import DataError, FileError

IMAGES = "train_val2018"
COUNTS = {"images": 461939, "species": 8142, "super-classes": 14}
LISTS = {"train": "Inaturalist_train_set1.txt", "test": "Inaturalist_test_set1.txt"}
CATEGORIES = ("categories.json", "train2018.json")


def recognizes(folder: Path) -> bool:
    """Its folder of images."""
    return (folder / IMAGES).is_dir()


def read(folder: Path, *, verify: bool = True) -> LabeledImages:
    """The data set: `train_val2018/<super-class>/<species number>/<image>.jpg`.

    With `categories.json` or `train2018.json` beside it, species are called by name.
    """
    paths = [f"{IMAGES}/{path}" for path in images_below(folder / IMAGES)]
    bad = next((path for path in paths if path.count("/") != 3), None)
    if bad is not None or not paths:
        raise DataError(f"inaturalist: expected {IMAGES}/<super-class>/<species>/<image>, found {bad}")
    labels, keys = number_labels(["/".join(path.split("/")[1:3]) for path in paths])
    parents, kinds = number_labels([key.partition("/")[0] for key in keys])
    if verify:
        found = {"images": len(paths), "species": len(keys), "super-classes": len(kinds)}
        check_counts("inaturalist", found, COUNTS)
    level = CoarseLevel("super_class", parents, kinds)
    split = _listed(folder, paths) if all((folder / file).is_file() for file in LISTS.values()) else None
    names = _names(folder, keys)
    return LabeledImages(folder, tuple(paths), labels, names, (level,), split, name="inaturalist")


def _listed(folder: Path, paths: list[str]) -> Words:
    """The part of each image by the two lists, which must name them all."""
    part_of: dict[str, str] = {}
    for part, file in LISTS.items():
        for line in read_lines(folder / file):
            part_of["/".join(line.split()[-1].split("/")[-3:])] = part
    words = [part_of.get(path.removeprefix(f"{IMAGES}/")) for path in paths]
    unlisted = next((i for i, word in enumerate(words) if word is None), None)
    if unlisted is not None:
        raise DataError(
            f"inaturalist: {paths[unlisted]} is in neither {LISTS['train']} nor {LISTS['test']}; "
            "remove the image, or use a split.csv with the columns label,split"
        )
    return np.array(words, dtype=np.str_)


def _names(folder: Path, keys: tuple[str, ...]) -> tuple[str, ...]:
    file = next((folder / name for name in CATEGORIES if (folder / name).is_file()), None)
    if file is None:
        return keys
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        rows = content["categories"] if isinstance(content, dict) else content
        name_of = {str(row["id"]): str(row["name"]) for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(f"{file}: holds no list of categories with id and name ({error})") from error
    names = tuple(name_of.get(key.partition("/")[2], key) for key in keys)
    return names if len(set(names)) == len(names) else keys
