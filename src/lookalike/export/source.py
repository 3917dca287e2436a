"""Facts that a run directory holds about a model, for its export and its model card."""

from pathlib import Path
from typing import Any

from lookalike.errors import FileError
from lookalike.utils.io import read_checked


def read_facts(run: Path, name: str) -> dict[str, Any]:
    """A JSON file of the run directory, or nothing where it is absent.

    Raises:
        FileError: it cannot be read.
    """
    file = run / name
    return read_checked(file) if file.is_file() else {}


def data_source(run: Path) -> str:
    """Where the images of a run were read from.

    Raises:
        FileError: the run does not say, or they are no longer there.
    """
    if not run.is_dir():
        raise FileError(f"there is no run directory '{run}'")
    source = str(read_facts(run, "data.json").get("source") or "")
    if not source or (source.startswith("/") and not Path(source).exists()):
        where = f"'{source}' is gone" if source else f"'{run}' does not say where its images are"
        raise FileError(f"{where}; name images to check the export on with --images DATA")
    return source
