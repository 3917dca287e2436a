"""iNaturalist 2018 by species, with its super-classes (plants, insects, ...) and taxonomic ranks.

No official split into classes for retrieval exists. Whatever split is wanted is a file next to the images:
`split.csv` with the columns label,split (as for any data set), or the two lists in circulation,
`Inaturalist_train_set1.txt` and `Inaturalist_test_set1.txt`, one image per line. Without one the data has no
split and classes are held out.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.data.dataset import CoarseLevel, LabeledImages, Words, number_labels
from lookalike.data.readers.files import check_counts, images_below, read_lines
from lookalike.errors import DataError, FileError

IMAGES = "train_val2018"
COUNTS = {"images": 461939, "species": 8142, "super-classes": 14}
LISTS = {"train": "Inaturalist_train_set1.txt", "test": "Inaturalist_test_set1.txt"}
CATEGORIES = ("categories.json", "train2018.json")
RANKS = ("class", "order", "family", "genus")
"""Taxonomic ranks that `categories.json` gives for each species, from the widest."""


def recognizes(folder: Path) -> bool:
    """Its folder of images."""
    return (folder / IMAGES).is_dir()


def read(folder: Path, *, verify: bool = True) -> LabeledImages:
    """The data set: `train_val2018/<super-class>/<species number>/<image>.jpg`.

    With `categories.json` or `train2018.json` next to it, species are called by name, and each rank that the
    file gives for all of them is a coarse level: genus, family, order and class, before the super-class.
    """
    paths = [f"{IMAGES}/{path}" for path in images_below(folder / IMAGES)]
    bad = next((path for path in paths if path.count("/") != 3), None)
    if bad is not None or not paths:
        raise DataError(f"inaturalist: expected {IMAGES}/<super-class>/<species>/<image>, found {bad}")
    labels, keys = number_labels(["/".join(path.split("/")[1:3]) for path in paths])
    rows = _categories(folder)
    parents, kinds = number_labels([key.partition("/")[0] for key in keys])
    if verify:
        found = {"images": len(paths), "species": len(keys), "super-classes": len(kinds)}
        check_counts("inaturalist", found, COUNTS)
    levels = (*_ranks(rows, keys), CoarseLevel("super_class", parents, kinds))
    split = _listed(folder, paths) if all((folder / file).is_file() for file in LISTS.values()) else None
    names = _names(rows, keys)
    return LabeledImages(folder, tuple(paths), labels, names, levels, split, name="inaturalist")


def _listed(folder: Path, paths: list[str]) -> Words:
    """The part of each image by the two lists, which must name them all."""
    part_of: dict[str, str] = {}
    for part, file in LISTS.items():
        for _, line in read_lines(folder / file):
            part_of["/".join(line.split()[-1].split("/")[-3:])] = part
    words = [part_of.get(path.removeprefix(f"{IMAGES}/")) for path in paths]
    unlisted = next((i for i, word in enumerate(words) if word is None), None)
    if unlisted is not None:
        raise DataError(
            f"inaturalist: {paths[unlisted]} is in neither {LISTS['train']} nor {LISTS['test']}; "
            "remove the image, or use a split.csv with the columns label,split"
        )
    return np.array(words, dtype=np.str_)


def _categories(folder: Path) -> dict[str, dict[str, Any]]:
    """What the file of categories says of each species, by its number; empty without such a file."""
    file = next((folder / name for name in CATEGORIES if (folder / name).is_file()), None)
    if file is None:
        return {}
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        rows = content["categories"] if isinstance(content, dict) else content
        return {str(row["id"]): {**row, "name": str(row["name"])} for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(f"{file}: holds no list of categories with id and name ({error})") from error


def _names(rows: dict[str, dict[str, Any]], keys: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the species, or their keys where names are not unique."""
    names = tuple(rows[number]["name"] if (number := key.partition("/")[2]) in rows else key for key in keys)
    return names if len(set(names)) == len(names) else keys


def _ranks(rows: dict[str, dict[str, Any]], keys: tuple[str, ...]) -> list[CoarseLevel]:
    """A level for each rank that is known of every species, the finest first.

    Taxa of one name under different parents are different, so that the levels nest.
    """
    found = [rows.get(key.partition("/")[2], {}) for key in keys]
    known = [rank for rank in RANKS if all(isinstance(row.get(rank), str) for row in found)]
    levels = []
    for depth in range(len(known), 0, -1):
        taxa = ["/".join(row[rank] for rank in known[:depth]) for row in found]
        parents, paths = number_labels(taxa)
        last = tuple(path.rpartition("/")[2] for path in paths)
        levels.append(CoarseLevel(known[depth - 1], parents, last if len(set(last)) == len(last) else paths))
    return levels
