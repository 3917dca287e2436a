"""The Milvus engine: for collections that outgrow one machine; Milvus Lite is the same client on a file.

`--uri ./file.db` is Milvus Lite, which searches with faiss and which one process at a time may open; `--uri
http://host:19530` is a server or cluster; a token is not stored in the index and comes from MILVUS_TOKEN. Vectors lie
in a collection of the index's own, with the index type that the server chooses; answers wait for all writes before
them (consistency level Strong).
"""

import contextlib
import logging
import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from lookalike.errors import ArgumentError, FileError, first_line
from lookalike.search.engines.base import REMEDY, EngineLocation, Floats, Ints, Neighbors, NoVectorError
from lookalike.search.engines.faiss_search import accept_search_params
from lookalike.utils.validation import optional_import

MOST_HITS = 16_384
_ROWS = 1_000
_IDS = 10_000
"""Ids per filter expression; longer ones are answered in parts."""
_users: Counter[str] = Counter()
"""Engines of this process per file of Milvus Lite, which keeps a file open until it is released."""
_turn = threading.Lock()


class MilvusEngine:
    """Vectors in a Milvus collection; needs the extra `milvus`."""

    def __init__(self, location: EngineLocation) -> None:
        self._milvus = optional_import("pymilvus", "milvus")
        if not location.uri:
            raise ArgumentError("the engine milvus needs --uri ./file.db or --uri http://host:19530")
        if "://" not in location.uri and not location.uri.endswith(".db"):
            raise ArgumentError(f"a file of Milvus Lite ends in .db; '{location.uri}' does not")
        if "://" in location.uri and urlsplit(location.uri).password:
            raise ArgumentError("leave the password out of --uri, which the index stores; set MILVUS_TOKEN")
        # its errors are raised as well as logged with a traceback
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
        self._dim = location.dim
        self._name = location.name
        self._uri = location.uri
        self._client: Any = self._connected()
        try:
            with self._errors():
                if location.writable:
                    self._make()
                # a server that was started again has nothing in memory
                self._client.load_collection(self._name)
        except BaseException:
            self.close()
            raise

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
        among = None if allowed is None else np.unique(allowed)
        wanted = k if among is None else min(k, len(among))
        lines = self._nearest(queries_QD, min(wanted, MOST_HITS), among) if wanted else []
        if any(len(line) < wanted for line in lines):  # fewer are stored, or the server's index missed some
            among = self.ids() if among is None else np.intersect1d(among, self.ids())
            wanted = min(k, len(among))
            if wanted > MOST_HITS:
                raise ArgumentError(f"Milvus gives at most {MOST_HITS:,} hits; k is {k}")
            short = [number for number, line in enumerate(lines) if len(line) < wanted]
            for number in short:
                lines[number] = self._exactly(queries_QD[number], wanted, among)
        if not any(lines):
            return Neighbors.none(len(queries_QD))
        ids, similarities = (np.array([[hit[at] for hit in line] for line in lines]) for at in (0, 1))
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
            raise NoVectorError(missing[0], f"collection {self._name}")
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
        """Closes the segment that is being written: Milvus indexes closed segments, and scans the open one."""
        with self._errors():
            self._client.flush(self._name)

    def close(self) -> None:
        """Closes the connection, and the file if nothing else of this process uses it."""
        if self._client is None:
            return
        self._client.close()
        self._client = None
        if "://" not in self._uri:
            with _turn:
                _users[self._uri] -= 1
                if not _users[self._uri]:
                    servers = optional_import("milvus_lite.server_manager", "milvus")
                    servers.server_manager_instance.release_server(self._uri)

    def _connected(self) -> Any:
        local = "://" not in self._uri
        with _turn:
            try:
                client = self._milvus.MilvusClient(uri=self._uri, token=os.environ.get("MILVUS_TOKEN", ""))
            except Exception as error:
                why = (
                    "another process uses it, and Milvus Lite serves one at a time, or it is damaged"
                    if local and Path(self._uri).exists()
                    else first_line(error)
                )
                raise FileError(f"Milvus at {self._uri} cannot be opened: {why}") from error
            if local:
                _users[self._uri] += 1
        return client

    def _make(self) -> None:
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

    def _nearest(self, queries: Floats, k: int, among: Ints | None) -> list[list[tuple[int, float]]]:
        """The hits of each query, at most `k`; ids that are asked for are passed in parts."""
        accept_search_params()
        parts = [None] if among is None else [among[at : at + _IDS] for at in range(0, len(among), _IDS)]
        lines: list[list[tuple[int, float]]] = [[] for _ in queries]
        for part in parts if len(queries) else []:
            with self._errors():
                found = self._client.search(
                    self._name,
                    data=list(queries),
                    limit=k,
                    filter="" if part is None else f"id in {part.tolist()}",
                    search_params={"metric_type": "IP"},
                    consistency_level="Strong",
                )
            for line, hits in zip(lines, found, strict=True):
                line += [(int(hit["id"]), float(hit["distance"])) for hit in hits]
        return [sorted(line, key=lambda hit: (-hit[1], hit[0]))[:k] for line in lines]

    def _exactly(self, query: Floats, k: int, ids: Ints) -> list[tuple[int, float]]:
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
            remedy = "" if "://" in self._uri else f"; if '{self._uri}' is damaged: {REMEDY}, and that file"
            raise FileError(
                f"Milvus, collection {self._name}: {first_line(error.message)}{remedy}"
            ) from error
