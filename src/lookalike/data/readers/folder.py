"""Reads folders of class folders: the label of an image is the folder it lies in."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, takewhile
from pathlib import Path

import numpy as np

from lookalike.data.dataset import LabeledImages, number_labels
from lookalike.data.readers.archives import is_archive
from lookalike.data.readers.files import list_images
from lookalike.errors import DataError


@dataclass(frozen=True)
class Part:
    """What a folder or a word in a split column stands for."""

    split: str
    role: str = "both"


TRAIN, VALIDATION, TEST = Part("train"), Part("validation"), Part("test")
PARTS: dict[str, Part] = {
    "train": TRAIN,
    "training": TRAIN,
    "trainval": TRAIN,
    "val": VALIDATION,
    "valid": VALIDATION,
    "validation": VALIDATION,
    "dev": VALIDATION,
    "test": TEST,
    "testing": TEST,
    "eval": TEST,
    "evaluation": TEST,
    "query": Part("test", "query"),
    "queries": Part("test", "query"),
    "probe": Part("test", "query"),
    "gallery": Part("test", "gallery"),
    "bounding_box_train": TRAIN,
    "bounding_box_test": Part("test", "gallery"),
}
"""Names of folders, and words in a split column, that name a split; in any case."""
CAMERA_FOLDER = re.compile(r"[1-9]\d\d[A-Z0-9_]{5}")
"""How cameras and phones name folders, such as 100APPLE."""
IMAGE_FOLDERS = frozenset({"images", "image", "imgs", "img", "jpg", "photos", "pictures"})
"""Folders that may lie in each class folder; without one around them they are no class."""
ENDING = re.compile(r"[_\- ]?(set|split|images|imgs|data)$")
"""What may follow them, as in `train_set` and `test images`."""


def part_of(name: str) -> Part | None:
    """The part that a folder's name or a word stands for, if any."""
    word = name.strip().casefold()
    return PARTS.get(word) or PARTS.get(ENDING.sub("", word))


def read_class_folders(folder: Path, *, labeled: bool = True) -> LabeledImages:
    """Images below `folder`; the label is the path of an image's folder, relative to `folder`.

    Folders may be nested (`birds/owl` is one class). Where all folders of one level are called train,
    validation (val, dev), test (eval), query or gallery, they name the split, and the label is the rest of the
    path. With `labeled=False` images may also lie at the top; their label is then `.`.

    Raises:
        DataError: no images, or images outside class folders.
    """
    listing = list_images(folder)
    paths = listing.paths
    if not paths:
        left_out = f" ({listing.notes[0]})" if listing.notes else ""
        packed = next((file.name for file in sorted(folder.rglob("*")) if is_archive(file)), None)
        raise DataError(
            f"{folder}: holds no images{left_out}; "
            + (f"unpack {packed} and the like first; " if packed else "")
            + f"expected {folder}/<class>/<image>.jpg"
        )
    folders = [path.split("/")[:-1] for path in paths]
    level = _part_level(folders)
    split = role = None
    notes = list(listing.notes)
    if level is None:
        notes += _notes_on_almost_parts(folders)
    else:
        parts = [part for names in folders if (part := part_of(names[level]))]
        folders = [[*names[:level], *names[level + 1 :]] for names in folders]
        split = np.array([part.split for part in parts], dtype=np.str_)
        if any(part.role != "both" for part in parts):
            role = np.array([part.role for part in parts], dtype=np.str_)
    labels_of = ["/".join(names) for names in folders]
    outside = _outside_classes(folders, level or 0) if labeled else []
    if outside:
        raise DataError(
            f"{folder}: {len(outside):,} images lie outside class folders, first {paths[outside[0]]}; move each into "
            "a folder named after its class, or give a table with the columns path,label"
        )
    labels, names_of_classes = number_labels([label or "." for label in labels_of])
    if labeled:
        notes += _notes_on_inner_classes(names_of_classes)
    if all(CAMERA_FOLDER.fullmatch(name.rpartition("/")[2]) for name in names_of_classes):
        notes.append(
            f"class names such as {names_of_classes[0]} are those of a camera's memory card; to train, sort the images "
            "into a folder per class"
        )
    return LabeledImages(
        folder,
        tuple(paths),
        labels,
        names_of_classes,
        split=split,
        role=role,
        name=folder.name or "data",
        notes=tuple(notes),
    )


def _outside_classes(folders: list[list[str]], level: int) -> list[int]:
    """Images in no class folder: at the top, or right in a part (`test/1.jpg`) where others have `train/owl/1.jpg`."""
    labels = {"/".join(names) for names in folders}
    above_classes = {"", *(above for label in labels for above in _above(label))}
    inner = {label.rpartition("/")[2] for label in labels if "/" in label}
    return [
        row
        for row, names in enumerate(folders)
        if ("/".join(names) in above_classes and len(names) <= level)
        or (len(names) == level + 1 and names[-1].casefold() in IMAGE_FOLDERS & inner)
    ]


def _notes_on_inner_classes(classes: Sequence[str]) -> list[str]:
    """Says where a class folder lies in another class folder, as thumbnails next to their images do."""
    known = set(classes)
    inner = [name for name in classes if any(above in known for above in _above(name))]
    if not inner:
        return []
    return [
        f"{len(inner):,} classes lie inside other classes and count as classes of their own, such as {inner[0]}; move "
        "them elsewhere if they are the same things, such as small copies"
    ]


def _above(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _part_level(folders: list[list[str]]) -> int | None:
    """The level of folders that all name a part; below the top only where they name two or more."""
    for level in range(min(len(names) for names in folders)):
        words = {names[level] for names in folders}
        if all(map(part_of, words)) and (level == 0 or len(set(map(part_of, words))) > 1):
            return level
    return None


def _notes_on_almost_parts(folders: list[list[str]]) -> list[str]:
    """Says where folders next to each other hold the same class names, and some of them or none names a part."""
    low, high = min(folders), max(folders)
    above = len(list(takewhile(lambda names: names[0] == names[1], zip(low[:-1], high, strict=False))))
    folders = [names[above:] for names in folders]
    below: dict[str, set[str]] = defaultdict(set)
    for names in folders:
        if len(names) > 1:
            below[names[0]].add("/".join(names[1:]))
    named = sorted(filter(part_of, below))
    others = sorted(below.keys() - named)
    if (
        not named
        and len(others) > 1
        and len(below[others[0]]) > 1
        and len(set(map(frozenset, below.values()))) == 1
    ):
        first, second = others[:2]
        return [
            f"{first}/ and {second}/ hold the same class names, such as {min(below[first])}, and are read as different "
            "classes; if they are the same classes, put the images of each into one folder"
        ]
    if not named:
        return []
    loose = sorted(name for name in {names[0] for names in folders if len(names) == 1} if not part_of(name))
    for top in [*others, *loose[:1]]:
        for part, other in [(part, top) for part in named] + list(combinations(named, 2)):
            shared = below[other] & below[part]
            if shared:
                return [
                    f"{part}/ and {other}/ hold the same class names, such as {min(shared)}, and are read as different "
                    f"classes: '{top}' is not a part; rename it to train, validation, test, query or gallery, or move "
                    "it elsewhere"
                ]
    return []
