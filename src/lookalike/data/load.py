"""`load_images`: a data set read, its notes reported, and files that cannot be decoded left out.

The way in for every command that goes on to use the pixels.
"""

from collections.abc import Collection
from pathlib import Path

from lookalike.data.dataset import LabeledImages
from lookalike.data.read import read
from lookalike.data.screen import drop_unreadable
from lookalike.utils.progress import Progress


def load_images(
    source: LabeledImages | str | Path,
    *,
    layout: str | None = None,
    verify: bool = True,
    labeled: bool = True,
    ignore_labels: Collection[str] = (),
    on_bad_file: str = "skip",
    progress: Progress | None = None,
) -> LabeledImages:
    """The images of `source`, each of which can be decoded.

    Args:
        source: a table, or what `read` takes.
        layout, verify, labeled, ignore_labels: see `ReadOptions`.
        on_bad_file: "skip" leaves out files that cannot be decoded and names them, "fail" refuses them.
        progress: told what reading found, which files were skipped, and how far the check is.

    Raises:
        DataError: the data cannot be read, or a file cannot be decoded and `on_bad_file` is "fail".
    """
    progress = progress or Progress()
    if isinstance(source, LabeledImages):
        table = source
    else:
        table = read(source, layout=layout, verify=verify, labeled=labeled, ignore_labels=ignore_labels)
    for note in table.notes:
        progress.say(f"note: {note}")
    return drop_unreadable(table, on_bad_file=on_bad_file, progress=progress)[0]
