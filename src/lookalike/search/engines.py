"""Engines: given unit vectors once, answer which rows are most similar to a query.

The exact engine compares with everything and is the truth that the others are measured against; it needs
nothing but this package. faiss answers from an approximate structure when there are many rows, and from a
flat one when there are few (structures that must be trained cannot be built from a handful of rows).

One contract for all, held by one test: a query gets min(k, N) rows, each at most once, most similar first,
with cosine similarities; never a filler.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lookalike.ranking import nearest
from lookalike.utils.validation import optional_import

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

FLAT_BELOW = 50_000


class Engine(Protocol):
    """Search over a fixed set of N unit vectors."""

    def search(self, queries_QD: Floats, k: int) -> tuple[Ints, Floats]:
        """Rows and cosine similarities (Q, min(k, N)) of the most similar vectors, most similar first."""


class ExactEngine:
    """Compares every query with every vector, in blocks; memory-mapped vectors stay on disk.

    Args:
        vectors_ND: unit vectors, (N, D) float32, N at least 1.
    """

    def __init__(self, vectors_ND: Floats) -> None:
        self._vectors = vectors_ND

    def search(self, queries_QD: Floats, k: int) -> tuple[Ints, Floats]:
        """See `Engine`; ties in order of rows."""
        return nearest(queries_QD, self._vectors, k)


class FaissEngine:
    """faiss, by inner product: flat for few rows, a graph (HNSW) from `flat_below` rows on.

    Args:
        vectors_ND: unit vectors, (N, D) float32, N at least 1.
        flat_below: fewer rows than this are compared exactly.
        links: neighbors that each row keeps in the graph.
        breadth: candidates that a search keeps while it walks; more finds more and is slower.
    """

    def __init__(
        self, vectors_ND: Floats, *, flat_below: int = FLAT_BELOW, links: int = 32, breadth: int = 128
    ) -> None:
        faiss = optional_import("faiss", "faiss")
        self._vectors = vectors_ND
        self._graph = len(vectors_ND) >= flat_below
        self._breadth = breadth
        width = vectors_ND.shape[1]
        if self._graph:
            self._index = faiss.IndexHNSWFlat(width, links, faiss.METRIC_INNER_PRODUCT)
            self._index.hnsw.efConstruction = 2 * breadth
        else:
            self._index = faiss.IndexFlatIP(width)
        self._index.add(np.ascontiguousarray(vectors_ND, dtype=np.float32))

    def search(self, queries_QD: Floats, k: int) -> tuple[Ints, Floats]:
        """See `Engine`; a query that the graph leaves with fewer rows than asked is answered exactly."""
        k = min(k, len(self._vectors))
        queries_QD = np.ascontiguousarray(queries_QD, dtype=np.float32)
        if self._graph:
            self._index.hnsw.efSearch = max(self._breadth, 2 * k)
        similarities, rows = self._index.search(queries_QD, k)
        rows = rows.astype(np.int64)
        short = (rows < 0).any(axis=1)
        if short.any():
            rows[short], similarities[short] = nearest(queries_QD[short], self._vectors, k)
        return rows, similarities


ENGINES: Mapping[str, Callable[[Floats], Engine]] = {"exact": ExactEngine, "faiss": FaissEngine}


def overlap(engine: Engine, vectors_ND: Floats, *, k: int = 10, sample: int = 500, seed: int = 0) -> float:
    """Share of the true `k` nearest rows that `engine` finds, over a seeded sample of rows as queries.

    The true ones are those of `ExactEngine`; a row counts if it is at least as similar as the k-th of them,
    so that ties do not count against an engine.
    """
    count = len(vectors_ND)
    picked = np.sort(np.random.default_rng(seed).choice(count, size=min(sample, count), replace=False))
    queries = np.asarray(vectors_ND[picked], dtype=np.float32)
    _, true = ExactEngine(vectors_ND).search(queries, k)
    _, found = engine.search(queries, k)
    return float((found >= true[:, -1:] - 1e-5).mean())
