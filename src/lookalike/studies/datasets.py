"""Data sets for rows: found in a folder of benchmarks, one named data set for all, or a few glyphs."""

from pathlib import Path

import numpy as np

from lookalike.data.dataset import LabeledImages
from lookalike.data.glyphs import draw_glyphs
from lookalike.data.read import read
from lookalike.data.readers import LAYOUTS
from lookalike.data.readers.archives import is_archive
from lookalike.errors import FileError, LookalikeError
from lookalike.studies.protocols.single_run import training_half
from lookalike.studies.study import DATASETS, Row

TOY_TRAIN, TOY_TEST, TOY_IMAGES = 12, 6, 6


class Images:
    """Data sets for rows, each read once.

    Args:
        root: folder with the benchmarks, each as a folder or archive of any name.
        dataset: one data set for all rows instead, as `read` takes it.
        smoke: the toy set for all rows instead.

    Raises:
        FileError: `root` is no folder.
    """

    def __init__(self, root: Path | None = None, dataset: str | None = None, *, smoke: bool = False) -> None:
        if root is not None and not root.is_dir():
            raise FileError(f"no folder '{root}'; --data names the folder that the benchmarks lie in")
        self.root, self.dataset, self.smoke = root, dataset, smoke
        self._read: dict[str, LabeledImages] = {}

    def of(self, name: str) -> LabeledImages:
        """The images for a row whose own data set is `name`.

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
        why = ""
        for entry in [self.root, *sorted(self.root.iterdir())]:
            if _may_be(name, entry):
                try:
                    return read(entry, layout=name)
                except LookalikeError as error:
                    why = f" ({error})"
        raise FileError(
            f"no {DATASETS[name]} in '{self.root}'{why}; put its folder or archive there, or run the study "
            "on other data with --dataset"
        )


def other_groups(row: Row, table: LabeledImages) -> str:
    """Why the groups of the row's own data set are not the paper's, by their number; empty where they may be."""
    if row.given_groups is None or table.name != row.dataset:
        return ""
    wanted = str(row.experiment().loss.arguments["parents"]).partition(":")[2]
    found = [
        (level.name, len(np.unique(level.parents)))
        for level in training_half(table).kept.coarse
        if wanted in ("", level.name)
    ]
    if [count for _, count in found] == [row.given_groups]:
        return ""
    levels = ", ".join(f"{name} {count}" for name, count in found) or f"no level {wanted}"
    return (
        f"the paper has {row.given_groups} given groups, and the training classes have: {levels}; the row is run "
        "and is not comparable. Its split or level is another one"
    )


def _within(root: Path | None, dataset: str) -> str | Path:
    """A data set's name in the folder of benchmarks, such as grocery for ROOT/grocery.zip, or as it is."""
    if root is not None and not Path(dataset).exists():
        for entry in sorted(root.iterdir()):
            if dataset in (entry.name, entry.name.split(".")[0]):
                return entry
    return dataset


NAMES = {
    "cub200": ("cub",),
    "cars196": ("cars", "carims"),
    "sop": ("sop", "stanfordonlineproducts"),
    "inshop": ("inshop", "deepfashion"),
    "inaturalist": ("inat",),
}
"""What names of folders and archives of a benchmark contain, small letters without signs."""


def _may_be(name: str, entry: Path) -> bool:
    """Whether it is worth reading `entry` as the benchmark `name`: by its layout, or by what it is called."""
    if entry.is_dir() and LAYOUTS[name].recognizes(entry):
        return True
    plain = "".join(sign for sign in entry.name.lower() if sign.isalnum())
    return (entry.is_dir() or is_archive(entry)) and any(word in plain for word in NAMES[name])


def toy_glyphs() -> LabeledImages:
    """A few built-in characters of several scripts: 12 classes to train, 6 to test, 6 images of each."""
    table = draw_glyphs(per_class=TOY_IMAGES)
    assert table.split is not None
    chosen: list[int] = []
    for part, count in (("train", TOY_TRAIN), ("test", TOY_TEST)):
        classes = np.unique(table.labels[table.split == part])
        chosen += classes[np.linspace(0, len(classes) - 1, count).astype(int)].tolist()
    return table.of_classes(chosen)
