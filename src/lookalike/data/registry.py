"""Names for data sets on this machine: built-in ones, and those that `lookalike data add` registered."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from lookalike.data.dataset import LabeledImages
from lookalike.data.readers import LAYOUTS
from lookalike.data.readers.plain import ReadOptions
from lookalike.errors import ArgumentError, FileError
from lookalike.utils.cache_dir import cache_folder
from lookalike.utils.io import write_json


@dataclass(frozen=True)
class Registered:
    """Where a named data set lies, how it is read, and what it held when it was added."""

    path: str
    layout: str | None
    images: int
    classes: int
    digest: str
    verify: bool = True
    ignore_labels: tuple[str, ...] = ()


def _glyphs() -> LabeledImages:
    from lookalike.data.glyphs import draw_glyphs

    return draw_glyphs()


BUILT_IN: dict[str, Callable[[], LabeledImages]] = {"glyphs": _glyphs}


def registered() -> dict[str, Registered]:
    """Data sets added on this machine, by name.

    Raises:
        FileError: the list of names is damaged.
    """
    file = _file()
    if not file.is_file():
        return {}
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
        return {name: Registered(**entry) for name, entry in entries.items()}
    except (ValueError, TypeError, AttributeError, OSError) as error:
        raise FileError(
            f"{file}: the list of data sets is damaged ({error}); delete it and add them again"
        ) from error


def register(name: str, path: Path, table: LabeledImages, options: ReadOptions) -> Registered:
    """Makes `name` stand for the data set at `path`, read as `table` with `options`, instead of an earlier one.

    Raises:
        ArgumentError: the name is built in, or holds more than letters, digits, - and _.
    """
    check_name(name)
    entry = Registered(
        path=str(path.absolute()),
        layout=options.layout,
        images=len(table),
        classes=table.num_classes,
        digest=table.digest(),
        verify=options.verify,
        ignore_labels=options.ignore_labels,
    )
    file = _file()
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(file.with_suffix(".lock")):
        entries = {**registered(), name: entry}
        write_json(file, {key: asdict(value) for key, value in sorted(entries.items())})
    return entry


def check_name(name: str) -> None:
    """Refuses a name that is built in, or that could be taken for a path or an option."""
    if name in BUILT_IN:
        raise ArgumentError(f"'{name}' is built in; choose another name")
    if not re.fullmatch(r"\w[\w-]*", name):
        raise ArgumentError(f"'{name}' cannot name a data set; use letters, digits, '-' and '_'")


def known_datasets() -> list[dict[str, Any]]:
    """What can be read by name, and which published layouts are recognized, as rows for a table."""
    here = registered()
    rows = [{"name": name, "state": "built in", "about": "drawn characters"} for name in BUILT_IN]
    rows += [
        {"name": name, "state": "added", "about": f"{e.images:,} images, {e.classes:,} classes: {e.path}"}
        for name, e in sorted(here.items())
    ]
    known = ((name, layout.about) for name, layout in LAYOUTS.items() if name not in here)
    return rows + [{"name": name, "state": "recognized", "about": about} for name, about in known]


def _file() -> Path:
    return cache_folder() / "datasets.json"
