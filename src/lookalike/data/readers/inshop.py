"""In-Shop clothes retrieval (DeepFashion, Liu et al. 2016): some items train, others test."""

from pathlib import Path

import numpy as np

from lookalike.data.dataset import LabeledImages, number_labels
from lookalike.data.readers.files import check_counts, check_present, read_lines
from lookalike.errors import DataError

COUNTS = {
    "training images": 25882,
    "queries": 14218,
    "gallery images": 12612,
    "training items": 3997,
    "test items": 3985,
}
LIST = "list_eval_partition.txt"
REMEDY = "unpack img.zip, so that img/ lies next to Eval/ or in Img/"


def recognizes(folder: Path) -> bool:
    """Its partition list, at the top or in `Eval/`; CelebA calls a list of another kind so."""
    files = (folder / at / LIST for at in ("", "Eval"))
    return any(
        file.is_file() and any("item_id" in line for _, line in read_lines(file)[:2]) for file in files
    )


def read(folder: Path, *, verify: bool = True) -> LabeledImages:
    """The data set; a test image is a query or belongs to the gallery, never both."""
    file = next(folder / at / LIST for at in ("", "Eval") if (folder / at / LIST).is_file())
    root = folder / "Img" if (folder / "Img" / "img").is_dir() else folder
    paths, items, status = [], [], []
    for number, line in read_lines(file)[2:]:
        fields = line.split()
        if len(fields) != 3 or fields[2] not in ("train", "query", "gallery"):
            raise DataError(f"{file}: line {number} is not 'image_name item_id train|query|gallery'")
        paths.append(fields[0])
        items.append(fields[1])
        status.append(fields[2])
    states = np.array(status, dtype=np.str_)
    labels, names = number_labels(items)
    train = states == "train"
    if verify:
        found = {
            "training images": int(train.sum()),
            "queries": status.count("query"),
            "gallery images": status.count("gallery"),
            "training items": len(np.unique(labels[train])),
            "test items": len(np.unique(labels[~train])),
        }
        check_counts("inshop", found, COUNTS)
        check_present("inshop", root, paths, REMEDY)
    return LabeledImages(
        root,
        tuple(paths),
        labels,
        names,
        split=np.where(train, "train", "test"),
        role=np.where(train, "both", states),
        name="inshop",
    )
