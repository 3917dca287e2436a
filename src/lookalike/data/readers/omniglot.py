"""Omniglot (Lake et al. 2015): characters of the background alphabets train, of the evaluation ones test."""

from pathlib import Path

import numpy as np

from lookalike.data.dataset import CoarseLevel, LabeledImages, number_labels
from lookalike.data.readers.files import check_counts, images_below
from lookalike.errors import DataError

PARTS = {"images_background": "train", "images_evaluation": "test"}
COUNTS = {"images_background": (19280, 964), "images_evaluation": (13180, 659)}


def recognizes(folder: Path) -> bool:
    """Either of its two folders, or one of them itself."""
    return folder.name in PARTS or any((folder / part).is_dir() for part in PARTS)


def read(folder: Path, *, verify: bool = True) -> LabeledImages:
    """The data set, or the half that is there (then without a split); alphabets are the coarse level."""
    one = folder.name in PARTS
    root = folder.parent if one else folder
    here = [folder.name] if one else [part for part in PARTS if (root / part).is_dir()]
    paths: list[str] = []
    words: list[str] = []
    for part in here:
        found = images_below(root / part)
        if not found:
            raise DataError(f"{root / part}: holds no images; unpack {part}.zip again")
        if verify:
            images, classes = COUNTS[part]
            counts = {"images": len(found), "characters": len({p.rpartition("/")[0] for p in found})}
            check_counts(f"omniglot, {part}", counts, {"images": images, "characters": classes})
        paths += [f"{part}/{path}" for path in found]
        words += [PARTS[part]] * len(found)
    labels, names = number_labels(["/".join(path.split("/")[1:-1]) for path in paths])
    parents, alphabets = number_labels([name.partition("/")[0] for name in names])
    return LabeledImages(
        root,
        tuple(paths),
        labels,
        names,
        coarse=(CoarseLevel("alphabet", parents, alphabets),),
        split=np.array(words, dtype=np.str_) if len(here) == 2 else None,
        name="omniglot",
    )
