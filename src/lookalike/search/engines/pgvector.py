"""The pgvector engine: vectors in a table of the user's own PostgreSQL, next to the user's other data.

`--uri postgresql://user@host/database`; a password is not stored in the index and comes from PGPASSWORD or
~/.pgpass. From 5,000 vectors on there is an HNSW index; filters are answered by iterative scans, and what
a scan leaves short by an exact one. Vectors of more than 2,000 dimensions are stored with 16 bits, since
pgvector indexes no longer ones otherwise; more than 4,000 are not indexed, and compared exactly.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from lookalike.errors import ArgumentError, FileError, first_line
from lookalike.search.engines.base import EngineLocation, Floats, Ints, Neighbors
from lookalike.utils.validation import optional_import

INDEX_FROM = 5_000
FULL_DIMS, HALF_DIMS = 2_000, 4_000
BREADTH = 100
MOST_BREADTH = 1_000
EXACT_SHARE = 0.02


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
        self._dim = location.dim
        self._type = "halfvec" if FULL_DIMS < location.dim <= HALF_DIMS else "vector"
        self._table = location.name
        try:
            self._db: Any = self._psycopg.connect(location.uri, autocommit=True)
        except self._psycopg.Error as error:
            raise FileError(
                f"the database at {location.uri} cannot be opened: {first_line(error)}"
            ) from error
        if location.writable:
            self._make()

    def add(self, ids_N: Ints, vectors_ND: Floats) -> None:
        """See `Engine`."""
        sql = f"COPY {self._table} (id, embedding) FROM STDIN"
        with self._errors(), self._db.transaction(), self._db.cursor() as cursor, cursor.copy(sql) as copy:
            for number, vector in zip(ids_N.tolist(), vectors_ND, strict=True):
                copy.write_row((number, _text(vector)))

    def delete(self, ids_N: Ints) -> None:
        """See `Engine`."""
        with self._errors():
            self._db.execute(f"DELETE FROM {self._table} WHERE id = ANY(%s)", (ids_N.tolist(),))

    def search(self, queries_QD: Floats, k: int, *, allowed: Ints | None = None) -> Neighbors:
        """See `Engine`; a query that the index leaves with fewer than min(k, matches) is answered exactly."""
        matches = self.count() if allowed is None else self._stored(allowed)
        wanted = min(k, matches)
        if not wanted or not len(queries_QD):
            return Neighbors.none(len(queries_QD))
        few = allowed is not None and matches <= EXACT_SHARE * self.count()
        lines = [self._nearest(query, wanted, allowed, exact=few) for query in queries_QD]
        ids, similarities = (np.array([[row[part] for row in line] for line in lines]) for part in (0, 1))
        return Neighbors(ids.astype(np.int64), similarities.astype(np.float32).clip(-1, 1))

    def vectors(self, ids_N: Ints) -> Floats:
        """See `Engine`."""
        sql = f"SELECT id, embedding::text FROM {self._table} WHERE id = ANY(%s)"
        with self._errors():
            found = {int(number): text for number, text in self._db.execute(sql, (ids_N.tolist(),))}
        missing = [number for number in ids_N.tolist() if number not in found]
        if missing:
            raise ArgumentError(f"id {missing[0]} has no vector in table {self._table}")
        rows = [np.fromstring(found[number][1:-1], dtype=np.float32, sep=",") for number in ids_N.tolist()]
        return np.stack(rows) if rows else np.empty((0, self._dim), np.float32)

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
        if self._dim > HALF_DIMS or self.count() < INDEX_FROM:
            return
        kind = f"{self._type}_ip_ops"
        with self._errors():
            self._db.execute("SET maintenance_work_mem = '1GB'")
            self._db.execute(
                f"CREATE INDEX IF NOT EXISTS {self._table}_hnsw ON {self._table} USING hnsw (embedding {kind})"
            )
            self._db.execute(f"ANALYZE {self._table}")

    def close(self) -> None:
        """Closes the connection."""
        self._db.close()

    def _make(self) -> None:
        with self._errors():
            self._db.execute("CREATE EXTENSION IF NOT EXISTS vector")
            self._db.execute(
                f"CREATE TABLE IF NOT EXISTS {self._table} "
                f"(id bigint PRIMARY KEY, embedding {self._type}({self._dim}) NOT NULL)"
            )
            if self._dim <= HALF_DIMS:  # longer ones do not fit into a page
                self._db.execute(f"ALTER TABLE {self._table} ALTER COLUMN embedding SET STORAGE PLAIN")

    def _stored(self, allowed: Ints) -> int:
        sql = f"SELECT count(*) FROM {self._table} WHERE id = ANY(%s)"
        with self._errors():
            return int(self._db.execute(sql, (allowed.tolist(),)).fetchone()[0])

    def _nearest(
        self, query: Floats, k: int, allowed: Ints | None, *, exact: bool
    ) -> list[tuple[int, float]]:
        condition = "" if allowed is None else "WHERE id = ANY(%(ids)s)"
        sql = (
            f"SELECT id, -(embedding <#> %(query)s::{self._type}) FROM {self._table} {condition} "
            f"ORDER BY embedding <#> %(query)s::{self._type} LIMIT %(k)s"
        )
        values = {"query": _text(query), "k": k, "ids": None if allowed is None else allowed.tolist()}
        with self._errors(), self._db.transaction():
            if exact or k > MOST_BREADTH:
                self._db.execute("SET LOCAL enable_indexscan = off")
            else:
                self._db.execute(f"SET LOCAL hnsw.ef_search = {min(MOST_BREADTH, max(BREADTH, 2 * k))}")
                self._db.execute("SET LOCAL hnsw.iterative_scan = strict_order")
            rows = self._db.execute(sql, values).fetchall()
        if len(rows) < k and not exact:
            return self._nearest(query, k, allowed, exact=True)
        return sorted(rows, key=lambda row: (-row[1], row[0]))

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._psycopg.Error as error:
            raise FileError(f"PostgreSQL, table {self._table}: {first_line(error)}") from error


def _text(vector: Floats) -> str:
    return f"[{','.join(map(repr, vector.tolist()))}]"
