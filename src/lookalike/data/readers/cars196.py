"""Cars196 (Krause et al. 2013): classes 1-98 train, 99-196 test.

Two official layouts: `car_ims/` with `cars_annos.mat`, and the devkit's `cars_train/`, `cars_test/` with
`cars_train_annos.mat` and `cars_test_annos_withlabels.mat`.
"""

from pathlib import Path
from typing import Any

import numpy as np

from lookalike.data.dataset import LabeledImages
from lookalike.data.readers.files import check_counts, check_present
from lookalike.errors import DataError, FileError

TRAIN_CLASSES = 98
COUNTS = {"training images": 8054, "test images": 8131, "classes": 196}
REMEDY = "unpack the images next to the annotations"


def recognizes(folder: Path) -> bool:
    """One of the two official layouts."""
    return (folder / "cars_annos.mat").is_file() or _find(folder, "cars_train_annos.mat") is not None


def read(folder: Path, *, verify: bool = True) -> LabeledImages:
    """The data set; the authors' own train/test flag (for classification) plays no part."""
    if (folder / "cars_annos.mat").is_file():
        mat = _load(folder / "cars_annos.mat")
        rows = mat["annotations"]
        paths = [str(path) for path in rows["relative_im_path"]]
        numbers = [int(n) for n in rows["class"]]
        names = [str(name) for name in mat["class_names"]]
    else:
        paths, numbers = _devkit(folder)
        meta = _find(folder, "cars_meta.mat")
        if meta is None:
            names = [f"class {n}" for n in range(1, max(numbers) + 1)]
        else:
            names = [str(name) for name in _load(meta)["class_names"]]
    labels = np.array(numbers, dtype=np.int64) - 1
    split = np.where(labels < TRAIN_CLASSES, "train", "test")
    if verify:
        found = {
            "training images": int((split == "train").sum()),
            "test images": int((split == "test").sum()),
            "classes": len(set(numbers)),
        }
        check_counts("cars196", found, COUNTS)
        check_present("cars196", folder, paths, REMEDY)
    return LabeledImages(folder, tuple(paths), labels, tuple(names), split=split, name="cars196")


def _devkit(folder: Path) -> tuple[list[str], list[int]]:
    paths: list[str] = []
    numbers: list[int] = []
    for part, file in (("train", "cars_train_annos.mat"), ("test", "cars_test_annos_withlabels.mat")):
        annotations = _find(folder, file)
        if annotations is None:
            raise DataError(
                f"cars196: {file} is missing in {folder}; the devkit's cars_test_annos.mat has no labels, "
                "fetch the file with labels (or car_ims with cars_annos.mat, which has all)"
            )
        rows = _load(annotations)["annotations"]
        nested = (folder / f"cars_{part}" / f"cars_{part}").is_dir()
        at = f"cars_{part}/cars_{part}" if nested else f"cars_{part}"
        paths += [f"{at}/{name}" for name in rows["fname"]]
        numbers += [int(n) for n in rows["class"]]
    return paths, numbers


def _find(folder: Path, name: str) -> Path | None:
    return next((p for p in (folder / name, folder / "devkit" / name) if p.is_file()), None)


def _load(file: Path) -> dict[str, Any]:
    import scipy.io

    try:
        content: dict[str, Any] = scipy.io.loadmat(file, squeeze_me=True)
    except Exception as error:  # scipy raises whatever its parser trips over
        raise FileError(f"{file}: cannot be read as a MATLAB file ({error}); fetch it again") from error
    return content
