"""The Milvus engine: for collections that outgrow one machine; Milvus Lite is the same client on a file.

`--uri ./file.db` is Milvus Lite, `--uri http://host:19530` a server or cluster; a token is not stored in the
index and comes from MILVUS_TOKEN. Vectors lie in a collection of the index's own, with the index type that the
server chooses; answers wait for all writes before them (consistency level Strong).
"""

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from lookalike.errors import ArgumentError, FileError, first_line
from lookalike.search.engines.base import EngineLocation, Floats, Ints, Neighbors
from lookalike.utils.validation import optional_import

MOST_HITS = 16_384
_ROWS = 1_000
_IDS = 10_000
"""Ids per filter expression; longer ones are answered in parts."""


class MilvusEngine:
    """Vectors in a Milvus collection; needs the extra `milvus`."""

    def __init__(self, location: EngineLocation) -> None:
        self._milvus = optional_import("pymilvus", "milvus")
        if not location.uri:
            raise ArgumentError("the engine milvus needs --uri ./file.db or --uri http://host:19530")
        if "://" in location.uri and urlsplit(location.uri).password:
            raise ArgumentError("leave the password out of --uri, which the index stores; set MILVUS_TOKEN")
        # its errors are raised as well as logged with a traceback
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
        self._dim = location.dim
        self._name = location.name
        self._uri = location.uri
        try:
            self._client: Any = self._milvus.MilvusClient(
                uri=self._uri, token=os.environ.get("MILVUS_TOKEN", "")
            )
        except Exception as error:
            raise FileError(f"Milvus at {self._uri} cannot be opened: {first_line(error)}") from error
        if location.writable:
            self._make()

    def add(self, ids_N: Ints, vectors_ND: Floats) -> None:
        """See `Engine`."""
        with self._errors():
            for start in range(0, len(ids_N), _ROWS):
                part = zip(
                    ids_N[start : start + _ROWS].tolist(), vectors_ND[start : start + _ROWS], strict=True
                )
                self._client.insert(self._name, [{"id": number, "vector": vector} for number, vector in part])

    def delete(self, ids_N: Ints) -> None:
        """See `Engine`."""
        with self._errors():
            for start in range(0, len(ids_N), _ROWS):
                self._client.delete(self._name, ids=ids_N[start : start + _ROWS].tolist())

    def search(self, queries_QD: Floats, k: int, *, allowed: Ints | None = None) -> Neighbors:
        """See `Engine`; at most 16,384 hits, which is Milvus' own limit."""
        stored = self.ids() if allowed is not None else None
        among = None if stored is None else np.intersect1d(np.asarray(allowed), stored)
        wanted = min(k, self.count() if among is None else len(among))
        if wanted > MOST_HITS:
            raise ArgumentError(f"Milvus gives at most {MOST_HITS:,} hits; k is {k}")
        if not wanted or not len(queries_QD):
            return Neighbors.none(len(queries_QD))
        parts = [None] if among is None else [among[at : at + _IDS] for at in range(0, len(among), _IDS)]
        lines: list[list[tuple[int, float]]] = [[] for _ in queries_QD]
        for part in parts:
            for line, found in zip(lines, self._nearest(queries_QD, wanted, part), strict=True):
                line += found
        best = [sorted(line, key=lambda hit: (-hit[1], hit[0]))[:wanted] for line in lines]
        if any(len(line) < wanted for line in best):
            best = [self._exactly(query, wanted, among) for query in queries_QD]
        ids, similarities = (np.array([[hit[at] for hit in line] for line in best]) for at in (0, 1))
        return Neighbors(ids.astype(np.int64), similarities.astype(np.float32).clip(-1, 1))

    def vectors(self, ids_N: Ints) -> Floats:
        """See `Engine`."""
        found: dict[int, Any] = {}
        with self._errors():
            for start in range(0, len(ids_N), _ROWS):
                rows = self._client.get(self._name, ids=ids_N[start : start + _ROWS].tolist())
                found |= {int(row["id"]): row["vector"] for row in rows}
        missing = [number for number in ids_N.tolist() if number not in found]
        if missing:
            raise ArgumentError(f"id {missing[0]} has no vector in collection {self._name}")
        rows = [np.asarray(found[number], dtype=np.float32) for number in ids_N.tolist()]
        return np.stack(rows) if rows else np.empty((0, self._dim), np.float32)

    def ids(self) -> Ints:
        """See `Engine`."""
        found: list[int] = []
        with self._errors():
            rows = self._client.query_iterator(
                self._name, batch_size=_ROWS, output_fields=["id"], consistency_level="Strong"
            )
            while batch := rows.next():
                found += [int(row["id"]) for row in batch]
            rows.close()
        return np.sort(np.array(found, dtype=np.int64))

    def count(self) -> int:
        """See `Engine`."""
        with self._errors():
            (row,) = self._client.query(
                self._name, filter="", output_fields=["count(*)"], consistency_level="Strong"
            )
        return int(row["count(*)"])

    def save(self) -> None:
        """Milvus builds its index by itself."""

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()

    def _make(self) -> None:
        with self._errors():
            if self._client.has_collection(self._name):
                return
            kinds = self._milvus.DataType
            schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
            schema.add_field("id", kinds.INT64, is_primary=True)
            schema.add_field("vector", kinds.FLOAT_VECTOR, dim=self._dim)
            index = self._client.prepare_index_params()
            index.add_index("vector", index_type="AUTOINDEX", metric_type="IP")
            self._client.create_collection(
                self._name, schema=schema, index_params=index, consistency_level="Strong"
            )

    def _nearest(self, queries: Floats, k: int, ids: Ints | None) -> list[list[tuple[int, float]]]:
        condition = "" if ids is None else f"id in {ids.tolist()}"
        with self._errors():
            found = self._client.search(
                self._name,
                data=list(queries),
                limit=k,
                filter=condition,
                search_params={"metric_type": "IP"},
                consistency_level="Strong",
            )
        return [[(int(hit["id"]), float(hit["distance"])) for hit in line] for line in found]

    def _exactly(self, query: Floats, k: int, among: Ints | None) -> list[tuple[int, float]]:
        ids = self.ids() if among is None else among
        values = np.concatenate(
            [self.vectors(ids[start : start + _IDS]) @ query for start in range(0, len(ids), _IDS)]
        )
        order = np.argsort(-values, kind="stable")[:k]
        return list(zip(ids[order].tolist(), values[order].tolist(), strict=True))

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._milvus.MilvusException as error:
            raise FileError(f"Milvus, collection {self._name}: {error.message}") from error
