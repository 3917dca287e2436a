"""The SQLite database of an index: its tables, and how it is opened and asked."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.search.engines.base import Ints

_AT_ONCE = 500  # parameters per statement; SQLite's own limit is 32,766
SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE items (id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE);
CREATE TABLE roots (id INTEGER PRIMARY KEY, path NOT NULL UNIQUE);
CREATE TABLE files (
    root INTEGER NOT NULL, path NOT NULL, item INTEGER NOT NULL, label TEXT NOT NULL,
    size INTEGER NOT NULL, modified INTEGER NOT NULL, PRIMARY KEY (root, path)
) WITHOUT ROWID;
CREATE INDEX files_by_item ON files (item);
CREATE TABLE columns (name TEXT PRIMARY KEY, field TEXT NOT NULL, kind TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('next_id', 1), ('version', 0);
"""


def connect(file: Path, mode: str, *, immutable: bool = False) -> sqlite3.Connection:
    """A connection without transactions of its own; `mode` is SQLite's: "ro", "rw" or "rwc"."""
    address = f"{file.absolute().as_uri()}?mode={mode}{'&immutable=1' if immutable else ''}"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=30, check_same_thread=False)
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def parts(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """`values` in parts that fit into one statement."""
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]


def first_column(rows: Iterable[tuple[Any, ...]]) -> Ints:
    """The first value of each row."""
    return np.fromiter((row[0] for row in rows), np.int64)
