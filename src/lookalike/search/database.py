"""The SQLite database of an index: tables, and connections whose errors are one line with file and remedy."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

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


def connect(file: Path, mode: str, *, immutable: bool = False) -> "Connection":
    """Opens a database; `mode` is ro, rw or rwc. Threads may share it, one at a time."""
    address = f"{file.absolute().as_uri()}?mode={mode}{'&immutable=1' if immutable else ''}"
    try:
        connection: Connection = sqlite3.connect(
            address, uri=True, isolation_level=None, timeout=30, check_same_thread=False, factory=Connection
        )
    except sqlite3.DatabaseError as error:
        raise _explained(error, file) from error
    connection.file = file
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _explained(error: sqlite3.DatabaseError, file: Path) -> FileError:
    text = first_line(error)
    if "locked" in text:
        remedy = "another process is changing the index; try again later"
    elif "full" in text or "I/O" in text or "readonly" in text or "read-only" in text:
        remedy = "free space and check the permissions of its folder, then give the same command again"
    else:
        remedy = "it is damaged or missing; remove the folder and build the index again"
    return FileError(f"cannot read or write '{file}': {text}; {remedy}")


def _explaining(method: Callable[..., Any]) -> Any:
    """A method of a cursor that raises a `FileError` where the disk is full, or the file locked for long or damaged."""

    @wraps(method)
    def call(self: "_Cursor", *arguments: Any) -> Any:
        try:
            return method(self, *arguments)
        except sqlite3.IntegrityError:
            raise
        except sqlite3.DatabaseError as error:
            raise _explained(error, self.connection.file) from error

    return call


class _Cursor(sqlite3.Cursor):
    connection: "Connection"
    execute = _explaining(sqlite3.Cursor.execute)
    executemany = _explaining(sqlite3.Cursor.executemany)
    executescript = _explaining(sqlite3.Cursor.executescript)
    fetchone = _explaining(sqlite3.Cursor.fetchone)
    fetchall = _explaining(sqlite3.Cursor.fetchall)
    __next__ = _explaining(sqlite3.Cursor.__next__)


class Connection(sqlite3.Connection):
    """A connection whose errors name the file and the remedy."""

    file: Path

    def cursor(self, *_: Any) -> _Cursor:  # type: ignore[override]
        try:
            return super().cursor(_Cursor)
        except sqlite3.ProgrammingError as error:
            raise FileError(f"the index of '{self.file}' was closed; open it again") from error

    def execute(self, *arguments: Any) -> Any:
        return self.cursor().execute(*arguments)

    def executemany(self, *arguments: Any) -> Any:
        return self.cursor().executemany(*arguments)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Whatever is read inside is of one moment."""
        cursor = self.cursor()  # which says so where the database was closed
        if self.in_transaction:
            yield
            return
        cursor.execute("BEGIN")
        try:
            yield
        finally:
            self.rollback()

    def executescript(self, *arguments: Any) -> Any:
        return self.cursor().executescript(*arguments)


def parts(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """`values` in parts that fit into one statement."""
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]


def first_column(rows: Iterable[tuple[Any, ...]]) -> Ints:
    """The first value of each row."""
    return np.fromiter((row[0] for row in rows), np.int64)
