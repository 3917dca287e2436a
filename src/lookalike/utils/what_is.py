"""What a path is, in words, for messages that expected something else there."""

import os
from pathlib import Path

from lookalike.utils.validation import near_miss

RUN = "a run directory, as `lookalike train` leaves it"
INDEX = "an index, as `lookalike index` leaves it"
MARKS = {
    INDEX: ("index.json", "catalog.sqlite"),
    RUN: ("experiment.yaml", "data.json"),
    "a model folder": ("model.safetensors", "config.json"),
}
"""Files that all lie in a folder of each kind; a run directory is also a model folder."""
MANY = 1000
"""Of a folder with more entries, only so many are looked at."""
ALIKE = 0.75


def what_is(path: str | Path) -> str | None:
    """The kind of folder that this package made, such as `RUN`; None for anything else."""
    folder = Path(path)
    return next(
        (kind for kind, names in MARKS.items() if all((folder / name).is_file() for name in names)), None
    )


def found_instead(path: str | Path) -> str:
    """What is at a path that was expected to be something else, as "; it is an index, as ..."; often with what to name.

    Empty for a folder or file that is nothing of ours.
    """
    path = Path(path)
    if not path.exists():
        return f"; no such file or folder{similar_path(path)}"
    if kind := what_is(path):
        return f"; it is {kind}"
    if path.is_file():
        kind = what_is(path.parent)
        return f"; it is a file of '{path.parent}', {kind}; name that folder" if kind else "; it is a file"
    inside = [name for name in _names(path) if what_is(path / name)]
    if inside:
        more = f", and {len(inside) - 1} more like it" if len(inside) > 1 else ""
        return f"; it holds '{path / inside[0]}', {what_is(path / inside[0])}{more}"
    return "" if _names(path) else "; the folder is empty"


def similar_path(path: str | Path) -> str:
    """The hint "; did you mean 'x'?" with a neighbor of a path that does not exist, or an empty string."""
    path = Path(path)
    hint = near_miss(path.name, _names(path.parent), alike=ALIKE)
    return hint.replace("'", f"'{path.parent}{os.sep}", 1) if hint and path.parent != Path() else hint


def _names(folder: Path) -> list[str]:
    """Names in a folder, in order; none where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry, _ in zip(entries, range(MANY), strict=False))
    except OSError:
        return []
