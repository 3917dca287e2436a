"""The SQLite database of an index: tables, and connections whose errors are one line with file and remedy."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

from lookalike.errors import FileError, first_line
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
    """Opens a database; `mode` is ro, rw or rwc. Threads may share it, one at a time."""
    address = f"{file.absolute().as_uri()}?mode={mode}{'&immutable=1' if immutable else ''}"
    with explained(file):
        connection = sqlite3.connect(
            address, uri=True, isolation_level=None, timeout=30, check_same_thread=False, factory=_Connection
        )
        connection.file = file
        connection.execute("PRAGMA synchronous = NORMAL")
    return connection


@contextmanager
def explained(file: Path) -> Iterator[None]:
    """Around calls of the database.

    Raises:
        FileError: the disk is full, another process holds the file for long, or it is damaged.
    """
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.DatabaseError as error:
        text = first_line(error)
        if "locked" in text:
            remedy = "another process is changing the index; try again later"
        elif "full" in text or "I/O" in text or "readonly" in text or "read-only" in text:
            remedy = "free space and check the permissions of its folder, then give the same command again"
        else:
            remedy = "it is damaged or missing; remove the folder and build the index again"
        raise FileError(f"cannot read or write '{file}': {text}; {remedy}") from error


class _Cursor(sqlite3.Cursor):
    connection: "_Connection"

    def execute(self, *arguments: Any) -> Self:
        with explained(self.connection.file):
            super().execute(*arguments)
        return self

    def executemany(self, *arguments: Any) -> Self:
        with explained(self.connection.file):
            super().executemany(*arguments)
        return self

    def executescript(self, *arguments: Any) -> Self:
        with explained(self.connection.file):
            super().executescript(*arguments)
        return self

    def fetchone(self) -> Any:
        with explained(self.connection.file):
            return super().fetchone()

    def fetchall(self) -> list[Any]:
        with explained(self.connection.file):
            return super().fetchall()

    def __next__(self) -> Any:
        with explained(self.connection.file):
            return super().__next__()


class _Connection(sqlite3.Connection):
    file: Path

    def cursor(self, *_: Any) -> _Cursor:  # type: ignore[override]
        return super().cursor(_Cursor)

    def execute(self, *arguments: Any) -> _Cursor:
        return self.cursor().execute(*arguments)

    def executemany(self, *arguments: Any) -> _Cursor:
        return self.cursor().executemany(*arguments)

    def executescript(self, *arguments: Any) -> _Cursor:
        return self.cursor().executescript(*arguments)


def parts(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """`values` in parts that fit into one statement."""
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]


def first_column(rows: Iterable[tuple[Any, ...]]) -> Ints:
    """The first value of each row."""
    return np.fromiter((row[0] for row in rows), np.int64)
