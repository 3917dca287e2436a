"""The pgvector engine: vectors in a table of the user's own PostgreSQL, next to the user's other data.

`--uri postgresql://user@host/database`; a password is not stored in the index and comes from PGPASSWORD or
~/.pgpass. From 5,000 vectors on there is an HNSW index; filters are answered by iterative scans, and what
a scan leaves short by an exact one. Nothing is counted for a search: in PostgreSQL counting reads the whole table.
Vectors of more than 2,000 dimensions are stored with 16 bits, since pgvector indexes no longer ones otherwise; more
than 4,000 are not indexed, and compared exactly. Vectors travel in PostgreSQL's binary format.
"""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from lookalike.errors import ArgumentError, FileError, first_line
from lookalike.search.engines.base import EngineLocation, Floats, Ints, Neighbors, NoVectorError
from lookalike.utils.validation import optional_import

INDEX_FROM = 5_000
FULL_DIMS, HALF_DIMS = 2_000, 4_000
BREADTH, BREADTH_UP_TO = 100, 100_000
"""Candidates that a search keeps up to so many vectors; of more it keeps more, as the square root of their number."""
MOST_BREADTH = 1_000
EXACT_SHARE = 0.02
CONNECT_SECONDS = 10
NODE_BYTES = 1_000
"""Of a vector in the graph while it is built, besides its numbers."""
MOST_MEMORY = 1 << 30
"""That is asked for to build the graph in; the server's own setting counts if it is larger."""
MEMORY = (
    "SELECT set_config('maintenance_work_mem', "
    "greatest(pg_size_bytes(current_setting('maintenance_work_mem')), %s) / 1024 || 'kB', false)"
)
_COPY_BEGINS, _COPY_ENDS = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
_COPIED_ROWS = 1_000


class PgvectorEngine:
    """Vectors in PostgreSQL; needs the extra `pgvector` and the extension `vector` in the database."""

    def __init__(self, location: EngineLocation) -> None:
        self._psycopg = optional_import("psycopg", "pgvector")
        if location.uri is None or not location.uri.startswith(("postgresql://", "postgres://")):
            raise ArgumentError(f"the engine pgvector needs --uri postgresql://..., not '{location.uri}'")
        try:
            given = self._psycopg.conninfo.conninfo_to_dict(location.uri)
        except self._psycopg.Error as error:
            raise ArgumentError(f"--uri cannot be parsed: {first_line(error)}") from error
        if given.get("password"):
            raise ArgumentError(
                "leave the password out of --uri, which the index stores; set PGPASSWORD or ~/.pgpass"
            )
        self._uri = location.uri
        self._patience = {} if given.get("connect_timeout") else {"connect_timeout": CONNECT_SECONDS}
        self._dim = location.dim
        half = FULL_DIMS < location.dim <= HALF_DIMS
        self._type, self._number = ("halfvec", ">f2") if half else ("vector", ">f4")
        self._table = location.name
        self._db: Any = self._connected()
        if location.writable:
            self._make()

    def add(self, ids_N: Ints, vectors_ND: Floats) -> None:
        """See `Engine`."""
        rows = np.zeros(len(ids_N), self._row_type())
        rows["fields"], rows["id_bytes"], rows["id"] = 2, 8, ids_N
        rows["vector_bytes"] = 4 + np.dtype(self._number).itemsize * self._dim
        rows["dim"], rows["vector"] = self._dim, vectors_ND
        sql = f"COPY {self._table} (id, embedding) FROM STDIN WITH (FORMAT BINARY)"
        with self._errors(), self._db.transaction(), self._db.cursor() as cursor, cursor.copy(sql) as copy:
            copy.write(_COPY_BEGINS)
            for start in range(0, len(rows), _COPIED_ROWS):
                copy.write(rows[start : start + _COPIED_ROWS].tobytes())
            copy.write(_COPY_ENDS)

    def delete(self, ids_N: Ints) -> None:
        """See `Engine`."""
        with self._errors():
            self._db.execute(f"DELETE FROM {self._table} WHERE id = ANY(%s)", (ids_N.tolist(),))

    def search(self, queries_QD: Floats, k: int, *, allowed: Ints | None = None) -> Neighbors:
        """See `Engine`; a query that the index leaves with fewer than k hits is answered exactly."""
        with self._errors():
            # what the last ANALYZE saw, -1 before the first
            rows, indexed = self._db.execute(
                "SELECT reltuples, to_regclass(%s) IS NOT NULL FROM pg_class WHERE oid = to_regclass(%s)",
                (f"{self._table}_hnsw", self._table),
            ).fetchone()
        few = allowed is not None and len(allowed) <= EXACT_SHARE * rows
        exact = not indexed or few or k > MOST_BREADTH
        breadth = round(BREADTH * math.sqrt(max(rows, BREADTH_UP_TO) / BREADTH_UP_TO))
        lines = [self._nearest(query, k, allowed, breadth, exact=exact) for query in queries_QD]
        if not any(lines):
            return Neighbors.none(len(queries_QD))
        ids, similarities = (np.array([[row[part] for row in line] for line in lines]) for part in (0, 1))
        return Neighbors(ids.astype(np.int64), similarities.astype(np.float32).clip(-1, 1))

    def vectors(self, ids_N: Ints) -> Floats:
        """See `Engine`."""
        sql = f"SELECT id, embedding FROM {self._table} WHERE id = ANY(%s)"
        with self._errors():
            found = {
                int(number): np.frombuffer(content, self._number, offset=4)
                for number, content in self._db.execute(sql, (ids_N.tolist(),), binary=True)
            }
        missing = [number for number in ids_N.tolist() if number not in found]
        if missing:
            raise NoVectorError(missing[0], f"table {self._table}")
        rows = [found[number] for number in ids_N.tolist()]
        return np.stack(rows).astype(np.float32) if rows else np.empty((0, self._dim), np.float32)

    def ids(self) -> Ints:
        """See `Engine`."""
        with self._errors():
            rows = self._db.execute(f"SELECT id FROM {self._table} ORDER BY id").fetchall()
        return np.array([number for (number,) in rows], dtype=np.int64)

    def count(self) -> int:
        """See `Engine`."""
        with self._errors():
            return int(self._db.execute(f"SELECT count(*) FROM {self._table}").fetchone()[0])

    def save(self) -> None:
        """Builds the HNSW index once there are enough vectors; PostgreSQL keeps it up to date."""
        count = self.count()
        if self._dim > HALF_DIMS or count < INDEX_FROM:
            return
        kind = f"{self._type}_ip_ops"
        sql = f"CREATE INDEX IF NOT EXISTS {self._table}_hnsw ON {self._table} USING hnsw (embedding {kind})"
        graph = count * (np.dtype(self._number).itemsize * self._dim + NODE_BYTES)
        with self._errors():
            self._db.execute(MEMORY, (min(graph, MOST_MEMORY),))
            try:
                self._db.execute(sql)
            except (self._psycopg.errors.DiskFull, self._psycopg.errors.OutOfMemory):
                # several processes build in shared memory, of which a container has 64 MB; one needs none
                self._db.execute("SET max_parallel_maintenance_workers = 0")
                self._db.execute(sql)
            # after it the primary key alone is read to count
            self._db.execute(f"VACUUM ANALYZE {self._table}")

    def close(self) -> None:
        """Closes the connection."""
        self._db.close()

    def _connected(self) -> Any:
        try:
            return self._psycopg.connect(self._uri, autocommit=True, **self._patience)
        except self._psycopg.Error as error:
            raise FileError(f"the database at {self._uri} cannot be opened: {first_line(error)}") from error

    def _make(self) -> None:
        with self._errors():
            self._db.execute("CREATE EXTENSION IF NOT EXISTS vector")
            self._db.execute(
                f"CREATE TABLE IF NOT EXISTS {self._table} "
                f"(id bigint PRIMARY KEY, embedding {self._type}({self._dim}) NOT NULL)"
            )
            if self._dim <= HALF_DIMS:  # longer ones do not fit into a page
                self._db.execute(f"ALTER TABLE {self._table} ALTER COLUMN embedding SET STORAGE PLAIN")

    def _row_type(self) -> list[tuple[Any, ...]]:
        """A row of the table as COPY takes it in binary: each value behind its number of bytes."""
        return [
            ("fields", ">i2"),
            ("id_bytes", ">i4"),
            ("id", ">i8"),
            ("vector_bytes", ">i4"),
            ("dim", ">i2"),
            ("unused", ">i2"),
            ("vector", self._number, (self._dim,)),
        ]

    def _nearest(
        self, query: Floats, k: int, allowed: Ints | None, breadth: int, *, exact: bool
    ) -> list[tuple[int, float]]:
        condition = "" if allowed is None else "WHERE id = ANY(%(ids)s)"
        sql = (
            f"SELECT id, -(embedding <#> %(query)s::{self._type}) FROM {self._table} {condition} "
            f"ORDER BY embedding <#> %(query)s::{self._type} LIMIT %(k)s"
        )
        values = {"query": _text(query), "k": k, "ids": None if allowed is None else allowed.tolist()}
        with self._errors(), self._db.transaction():
            if exact:
                self._db.execute("SET LOCAL enable_indexscan = off")
            else:
                self._db.execute(f"SET LOCAL hnsw.ef_search = {min(MOST_BREADTH, max(breadth, 2 * k))}")
                self._db.execute("SET LOCAL hnsw.iterative_scan = strict_order")
            rows = self._db.execute(sql, values).fetchall()
        if len(rows) < k and not exact:
            return self._nearest(query, k, allowed, breadth, exact=True)
        return sorted(rows, key=lambda row: (-row[1], row[0]))

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turns errors into one line; a connection that was lost is opened again by the next call."""
        if self._db.closed:
            self._db = self._connected()
        try:
            yield
        except self._psycopg.Error as error:
            raise FileError(f"PostgreSQL, table {self._table}: {first_line(error)}") from error


def _text(vector: Floats) -> str:
    return f"[{','.join(map(repr, vector.tolist()))}]"
