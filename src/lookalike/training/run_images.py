"""Images for a command that has a run: those that are named, else the run's own, read as the run read them."""

from collections.abc import Mapping
from typing import Any

from lookalike.data.dataset import LabeledImages
from lookalike.data.load import is_gone, load_images, reading
from lookalike.errors import DataError
from lookalike.training.run_dir import RunDir
from lookalike.utils.progress import Progress


def load_named_or_own(
    folder: RunDir,
    data: str | None,
    *,
    options: Mapping[str, Any] | None = None,
    on_bad_file: str = "skip",
    progress: Progress | None = None,
) -> LabeledImages:
    """The images of `data` that can be decoded; of the run's own data if it is None.

    Args:
        options: arguments of `data.read.read`; where they leave one out, the run's own data is read as the run did.
        on_bad_file: see `load_images`; "fail" also where the run's settings say so.

    Raises:
        DataError: the run's own data is not where it was, or as `load_images`.
    """
    if data is not None:
        return load_images(data, **(options or {}), on_bad_file=on_bad_file, progress=progress)
    settings = folder.experiment().data
    source = str(folder.read_json("data.json")["source"])
    if is_gone(source):
        raise DataError(f"the run's data is no longer at '{source}'; name the data to use")
    return load_images(
        source,
        **reading(settings, options),
        on_bad_file=settings.on_bad_file if on_bad_file == "skip" else on_bad_file,
        progress=progress,
    )
