"""Facts that a run directory holds about a model, for its export and its model card."""

from pathlib import Path
from typing import Any

import numpy as np

from lookalike.config.experiment import load_experiment
from lookalike.config.schema import DataSettings
from lookalike.data.dataset import LabeledImages
from lookalike.data.load import is_gone, reading
from lookalike.data.read import read
from lookalike.data.screen import drop_unreadable
from lookalike.errors import FileError
from lookalike.utils.io import read_checked

IMAGES = 32
"""An export is checked on so many images."""


def read_facts(run: Path, name: str) -> dict[str, Any]:
    """A JSON file of the run directory, or nothing where it is absent.

    Raises:
        FileError: it cannot be read.
    """
    file = run / name
    return read_checked(file) if file.is_file() else {}


def images_to_check(run: Path, images: str | None, **options: Any) -> LabeledImages:
    """Images to check an export on: `images`, else the run's own data, read as the run did but for `options`.

    Raises:
        FileError: the run does not say where its images are, or they are no longer there.
        DataError: they cannot be read.
    """
    if images is None:
        source, own = data_source(run), run / "experiment.yaml"
        settings = load_experiment(own).data if own.is_file() else DataSettings()
        table = read(source, labeled=False, **reading(settings, options))
    else:
        table = read(images, labeled=False, **options)
    rows = np.linspace(0, len(table) - 1, num=min(IMAGES, len(table))).astype(int)
    return drop_unreadable(table.rows(rows))[0]


def data_source(run: Path) -> str:
    """Where the images of a run were read from.

    Raises:
        FileError: the run does not say, or they are no longer there.
    """
    if not run.is_dir():
        raise FileError(f"there is no run directory '{run}'")
    source = str(read_facts(run, "data.json").get("source") or "")
    if not source or is_gone(source):
        where = f"'{source}' is gone" if source else f"'{run}' does not say where its images are"
        raise FileError(f"{where}; name images to check the export on with --images DATA")
    return source
