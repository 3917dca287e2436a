"""What an index knows of its images besides their vectors: a SQLite database, `catalog.sqlite`.

An *item* is one image content, known by its SHA-256 and by a number that is never used twice; its vector lies
in the engine under that number. A *file* is a path below a root folder that holds an item's content, with
the label and columns of the user's table. Identical files share an item. Readers see the last commit
(SQLite's write-ahead log), whatever a writer is doing.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.errors import FileError
from lookalike.search.database import SCHEMA, Connection, connect, first_column, parts
from lookalike.search.engines.base import Ints
from lookalike.search.files import IndexedFile, StoredFile, to_stored, to_text
from lookalike.search.where import Column, Kind, Where, parse_where

CATALOG = "catalog.sqlite"


class Catalog:
    """An open catalog; `create` and `open` make one. One thread at a time may use it."""

    def __init__(self, connection: Connection, file: Path, identity: tuple[int, int] | None) -> None:
        self._db = connection
        self._file = file
        self._identity = identity

    @classmethod
    def create(cls, folder: Path) -> "Catalog":
        """A new, empty catalog in `folder`; what an unfinished creation left there is replaced."""
        for suffix in ("", "-wal", "-shm"):
            (folder / f"{CATALOG}{suffix}").unlink(missing_ok=True)
        file = folder / CATALOG
        connection = connect(file, "rwc")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(SCHEMA)
        return cls(connection, file, _identity(file))

    @classmethod
    def open(cls, folder: Path, *, writable: bool) -> "Catalog":
        """The catalog in `folder`.

        Raises:
            FileError: none there, or a damaged one.
        """
        file = folder / CATALOG
        identity = _identity(file)
        if writable or os.access(folder, os.W_OK):
            connection = connect(file, "rw")
            connection.execute(f"PRAGMA query_only = {0 if writable else 1}")
        else:
            connection = connect(file, "ro", immutable=True)
        if connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone() is None:
            raise FileError(f"'{file}' is damaged; remove the folder and build the index again")
        return cls(connection, file, identity)

    def close(self) -> None:
        """Closes the database."""
        self._db.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside happens, or nothing; readers then see it as a new version."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("UPDATE meta SET value = value + 1 WHERE key = 'version'")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def snapshot(self) -> contextlib.AbstractContextManager[None]:
        """Everything read inside is of one moment, whatever another process commits meanwhile."""
        return self._db.snapshot()

    def version(self) -> int:
        """Rises with every change."""
        return int(self._db.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()[0])

    def is_replaced(self) -> bool:
        """Whether its file was removed since it was opened, or another put in its place."""
        return _identity(self._file) != self._identity

    def count(self) -> int:
        """How many items have a file."""
        return int(self._db.execute("SELECT count(DISTINCT item) FROM files").fetchone()[0])

    def reserve(self, count: int) -> Ints:
        """So many new ids; committed at once, so that no id is ever given twice."""
        with self.transaction():
            first = int(self._db.execute("SELECT value FROM meta WHERE key = 'next_id'").fetchone()[0])
            self._db.execute("UPDATE meta SET value = ? WHERE key = 'next_id'", (first + count,))
        return np.arange(first, first + count, dtype=np.int64)

    # items

    def ids(self) -> Ints:
        """Every item that has a file, ascending."""
        return first_column(self._db.execute("SELECT DISTINCT item FROM files ORDER BY item"))

    def items_of_digests(self, digests: Sequence[str]) -> dict[str, int]:
        """The items that hold these contents."""
        rows = self._in("SELECT digest, id FROM items WHERE digest IN (?)", digests)
        return {str(digest): int(item) for digest, item in rows}

    def add_items(self, ids: Iterable[int], digests: Iterable[str]) -> None:
        """New items."""
        self._db.executemany("INSERT INTO items (id, digest) VALUES (?, ?)", zip(ids, digests, strict=True))

    def delete_items(self, ids: Sequence[int]) -> None:
        """Removes items and their files."""
        self._db.executemany("DELETE FROM files WHERE item = ?", ((item,) for item in ids))
        self._db.executemany("DELETE FROM items WHERE id = ?", ((item,) for item in ids))

    def delete_items_without_files(self) -> Ints:
        """Removes items that no file holds any more, and returns their ids."""
        without = "SELECT id FROM items WHERE NOT EXISTS (SELECT 1 FROM files WHERE item = items.id)"
        gone = first_column(self._db.execute(without))
        self._db.executemany("DELETE FROM items WHERE id = ?", ((item,) for item in gone.tolist()))
        return gone

    # roots

    def roots(self) -> dict[int, Path]:
        """The root folders by number."""
        return {
            int(number): Path(to_text(path))
            for number, path in self._db.execute("SELECT id, path FROM roots")
        }

    def add_root(self, path: Path) -> int:
        """A new root folder's number."""
        number: int | None = self._db.execute(
            "INSERT INTO roots (path) VALUES (?)", (to_stored(str(path)),)
        ).lastrowid
        assert number is not None
        return number

    def move_root(self, root: int, path: Path, prefix: str = "") -> None:
        """Gives a root another folder; its files' paths get `prefix` in front."""
        self._db.execute("UPDATE roots SET path = ? WHERE id = ?", (to_stored(str(path)), root))
        if prefix:
            rows = [
                (to_stored(prefix + to_text(path)), path)
                for (path,) in self._db.execute("SELECT path FROM files WHERE root = ?", (root,)).fetchall()
            ]
            self._db.executemany(
                "UPDATE files SET path = ? WHERE root = ? AND path = ?",
                ((new, root, old) for new, old in rows),
            )

    def join_roots(self, old: int, new: int, prefix: str) -> None:
        """Moves the files of root `old` below root `new`, with `prefix` in front of their paths."""
        self.move_root(old, Path(f"{old}: joined"), prefix)
        self._db.execute("UPDATE OR REPLACE files SET root = ? WHERE root = ?", (new, old))
        self._db.execute("DELETE FROM roots WHERE id = ?", (old,))

    # files

    def files(self, root: int, paths: Sequence[str]) -> dict[str, StoredFile]:
        """What is known of these paths below a root."""
        rows = self._in(
            f"SELECT {self._file_fields()} FROM files WHERE root = ? AND path IN (?)",
            [to_stored(p) for p in paths],
            root,
        )
        return {stored.file.path: stored for stored in self._stored_files(rows)}

    def files_of(self, items: Sequence[int], where: Where | None = None) -> dict[int, list[StoredFile]]:
        """The files of each item (those that match `where`), in order of their paths."""
        condition = "" if where is None else f" AND {where.sql}"
        found: dict[int, list[StoredFile]] = {}
        for part in parts(items):
            marks = ", ".join("?" * len(part))
            sql = f"SELECT {self._file_fields()} FROM files WHERE item IN ({marks}){condition} ORDER BY root, path"
            rows = self._db.execute(sql, [*part, *(where.parameters if where else ())])
            for stored in self._stored_files(rows):
                found.setdefault(stored.item, []).append(stored)
        return found

    def paths(self, root: int) -> Iterator[str]:
        """Every path below a root."""
        for (path,) in self._db.execute("SELECT path FROM files WHERE root = ?", (root,)).fetchall():
            yield to_text(path)

    def sample_files(self, root: int, count: int) -> list[StoredFile]:
        """Some files of a root."""
        sql = f"SELECT {self._file_fields()} FROM files WHERE root = ? LIMIT ?"
        return list(self._stored_files(self._db.execute(sql, (root, count))))

    def put_files(self, root: int, items: Sequence[int], files: Sequence[IndexedFile]) -> None:
        """Adds files, replacing those of the same path."""
        names = self._columns()
        fields = [name for name, _ in names.values()]
        marks = ", ".join("?" * (6 + len(fields)))
        self._db.executemany(
            f"INSERT OR REPLACE INTO files ({', '.join(['root, path, item, label, size, modified', *fields])}) "
            f"VALUES ({marks})",
            (
                (
                    root,
                    to_stored(f.path),
                    item,
                    to_stored(f.label),
                    f.size,
                    f.modified,
                    *(to_stored(v) if isinstance(v := f.values.get(name), str) else v for name in names),
                )
                for item, f in zip(items, files, strict=True)
            ),
        )

    def delete_files(self, root: int, paths: Iterable[str]) -> None:
        """Removes files; their items stay until `delete_items_without_files`."""
        self._db.executemany(
            "DELETE FROM files WHERE root = ? AND path = ?", ((root, to_stored(path)) for path in paths)
        )

    # columns and filters

    def set_columns(self, kinds: Mapping[str, Kind]) -> None:
        """Makes room for columns of the user's table; a column that once held text stays text."""
        known = self._columns()
        for name, kind in kinds.items():
            if name not in known:
                field_name = f"c{len(known)}"
                self._db.execute(f"ALTER TABLE files ADD COLUMN {field_name}")
                self._db.execute("INSERT INTO columns VALUES (?, ?, ?)", (name, field_name, kind))
                known[name] = (field_name, kind)
            elif known[name][1] != kind and kind == "text":
                self._db.execute("UPDATE columns SET kind = 'text' WHERE name = ?", (name,))

    def columns(self) -> dict[str, Column]:
        """What filters may name: label, path, and the columns of the user's table.

        Numbers in a column that also holds text are compared as text, and where there is no text, it is empty.
        """
        own = {
            name: Column(
                field_name if kind == "number" else f"COALESCE(CAST({field_name} AS TEXT), '')", kind
            )
            for name, (field_name, kind) in self._columns().items()
        }
        return {"label": Column("label", "text"), "path": Column("CAST(path AS TEXT)", "text"), **own}

    def where(self, text: str | None) -> Where | None:
        """A parsed filter, or None for none."""
        return parse_where(text, self.columns()) if text and text.strip() else None

    def matching(self, where: Where) -> Ints:
        """Ids of the items that have a file which matches, ascending."""
        sql = f"SELECT DISTINCT item FROM files WHERE {where.sql} ORDER BY item"
        return first_column(self._db.execute(sql, where.parameters))

    def page(self, where: Where | None, after: int, count: int) -> list[int]:
        """The next `count` items after id `after` that match."""
        condition = "" if where is None else f" AND {where.sql}"
        sql = f"SELECT DISTINCT item FROM files WHERE item > ?{condition} ORDER BY item LIMIT ?"
        rows = self._db.execute(sql, (after, *(where.parameters if where else ()), count))
        return [int(item) for (item,) in rows]

    def _columns(self) -> dict[str, tuple[str, Kind]]:
        rows = self._db.execute("SELECT name, field, kind FROM columns ORDER BY length(field), field")
        return {str(name): (str(field_name), kind) for name, field_name, kind in rows}

    def _file_fields(self) -> str:
        own = [field_name for field_name, _ in self._columns().values()]
        return ", ".join(["root, path, item, label, size, modified", *own])

    def _stored_files(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[StoredFile]:
        names, roots = list(self._columns()), self.roots()
        for root, path, item, label, size, modified, *values in rows:
            known = {name: value for name, value in zip(names, values, strict=True) if value is not None}
            yield StoredFile(
                roots[root], item, IndexedFile(to_text(path), to_text(label), size, modified, known)
            )

    def _in(self, sql: str, values: Sequence[Any], *before: Any) -> Iterator[tuple[Any, ...]]:
        """The rows of `sql`, whose `(?)` stands for all of `values`, a part at a time."""
        for part in parts(values):
            yield from self._db.execute(
                sql.replace("(?)", f"({', '.join('?' * len(part))})"), [*before, *part]
            )


def _identity(file: Path) -> tuple[int, int] | None:
    """What tells a file from another one that takes its place; None for no file."""
    try:
        facts = file.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
