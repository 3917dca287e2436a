"""Where the pictures of a row come from: a folder of benchmarks, one named data set, or a few glyphs."""

from pathlib import Path

import numpy as np

from lookalike.data import LabeledImages, read
from lookalike.data.readers import LAYOUTS, is_archive
from lookalike.errors import FileError, LookalikeError
from lookalike.studies.study import DATASETS

TOY_TRAIN, TOY_TEST, TOY_PICTURES = 12, 6, 6


class Pictures:
    """Data sets for rows, each read once.

    Args:
        root: folder with the benchmarks, each as a folder or archive of any name.
        dataset: one data set for all rows instead, as `read` takes it.
        smoke: the toy set for all rows instead.
    """

    def __init__(self, root: Path | None = None, dataset: str | None = None, *, smoke: bool = False) -> None:
        self.root, self.dataset, self.smoke = root, dataset, smoke
        self._read: dict[str, LabeledImages] = {}

    def of(self, name: str) -> LabeledImages:
        """The pictures for a row whose own data set is `name`.

        Raises:
            FileError: the data set is not there; with what to do.
        """
        key = "" if self.smoke or self.dataset else name
        if key not in self._read:
            self._read[key] = self._find(name)
        return self._read[key]

    def _find(self, name: str) -> LabeledImages:
        if self.smoke:
            return toy_glyphs()
        if self.dataset:
            return read(_within(self.root, self.dataset))
        if self.root is None:
            return read(name)
        for entry in [self.root, *sorted(self.root.iterdir())]:
            if entry.is_dir() or is_archive(entry):
                found = _if_it_is(name, entry)
                if found is not None:
                    return found
        raise FileError(
            f"no {DATASETS[name]} in '{self.root}'; put its folder or archive there, or run the study on "
            "other data with --dataset"
        )


def _within(root: Path | None, dataset: str) -> str | Path:
    """A data set's name in the folder of benchmarks, such as grocery for ROOT/grocery.zip, or as it is."""
    if root is not None and not Path(dataset).exists():
        for entry in sorted(root.iterdir()):
            if dataset in (entry.name, entry.name.split(".")[0]):
                return entry
    return dataset


def _if_it_is(name: str, entry: Path) -> LabeledImages | None:
    """The data set `name` if `entry` holds it; archives are opened only if their name may be it."""
    if name not in LAYOUTS:
        return None
    plain = "".join(sign for sign in entry.name.lower() if sign.isalnum())
    stem = name.rstrip("0123456789")
    if entry.is_dir() and not (LAYOUTS[name].recognizes(entry) or stem in plain):
        return None
    if not entry.is_dir() and stem not in plain and _official(name) not in plain:
        return None
    try:
        table = read(entry, layout=name)
    except LookalikeError:
        return None
    return table if table.name == name else None


def _official(name: str) -> str:
    return {"sop": "stanfordonlineproducts", "inshop": "deepfashion", "cars196": "carims"}.get(name, name)


def toy_glyphs() -> LabeledImages:
    """A few built-in characters of several scripts: 12 classes to train, 6 to test, 6 pictures of each."""
    table = read("glyphs")
    assert table.split is not None
    chosen: list[int] = []
    for part, count in (("train", TOY_TRAIN), ("test", TOY_TEST)):
        classes = np.unique(table.labels[table.split == part])
        chosen += classes[np.linspace(0, len(classes) - 1, count).astype(int)].tolist()
    few = table.of_classes(chosen)
    rows = [np.flatnonzero(few.labels == label)[:TOY_PICTURES] for label in range(few.num_classes)]
    return few.rows(np.concatenate(rows))
