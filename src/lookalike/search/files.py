"""A file of the index: what is known of it, and how its path and label are written in the database."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lookalike.search.where import Value
from lookalike.utils.io import escape_surrogates

_BOX = re.compile(r"#box=(\d+,\d+,\d+,\d+)\Z")


@dataclass(frozen=True)
class IndexedFile:
    """A file of the index, or a part of one: its path then ends in `#box=left,top,right,bottom`.

    `size` (bytes) and `modified` (nanoseconds) tell whether it changed since; -1 where there is no file.
    `values` are the columns of the user's table.
    """

    path: str
    label: str = ""
    size: int = -1
    modified: int = -1
    values: Mapping[str, Value | None] = field(default_factory=dict)


def box_of(path: str) -> tuple[str, tuple[int, ...] | None]:
    """The path of a file, and the box of the part that an indexed path means; the inverse of `with_box`."""
    match = _BOX.search(path)
    if match is None:
        return path, None
    return path[: match.start()], tuple(int(number) for number in match[1].split(","))


@dataclass(frozen=True)
class StoredFile:
    """An `IndexedFile` where it is stored: below which root folder, and as which item."""

    root: Path
    item: int
    file: IndexedFile

    @property
    def location(self) -> Path:
        """Of the file itself, also where only a part of it counts."""
        return self.root / box_of(self.file.path)[0]


def item_facts(files: Sequence[StoredFile]) -> dict[str, Any]:
    """What is known of an image of the index, as plain values for JSON."""
    first, *others = files
    values = first.file.values.items()
    return {
        "id": first.item,
        "path": escape_surrogates(first.file.path),
        "label": escape_surrogates(first.file.label),
        "missing": not first.location.exists(),
        "copies": [escape_surrogates(other.file.path) for other in others],
        "columns": {
            name: escape_surrogates(value) if isinstance(value, str) else value for name, value in values
        },
    }


def to_stored(path: str) -> str | bytes:
    """A path or label as SQLite takes it: names that are not UTF-8 are kept as bytes."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return os.fsencode(path)
    return path


def to_text(stored: str | bytes) -> str:
    """The inverse of `to_stored`."""
    return stored if isinstance(stored, str) else os.fsdecode(stored)
