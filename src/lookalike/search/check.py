"""What an index's engine is worth: recall against exact search, and queries per second, on its own images."""

import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lookalike.errors import ArgumentError, FileError
from lookalike.search.engines import REMEDY, Engine, Floats
from lookalike.search.index import ImageIndex

K, QUERIES = 10, 500
TOLERANCE, UNIT = 1e-5, 1e-2
_BLOCK = 65_536


@dataclass(frozen=True)
class IndexCheck:
    """Measured on images of the index as queries; prints as one line.

    Attributes:
        recall: share of the true `k` nearest that the engine finds. A hit counts if it is at least as
            similar as the k-th true one, so that ties do not count against an engine.
        queries_per_second: one query at a time, in this process.
        k, queries, images, engine: what was measured.
        date: when, UTC.
    """

    recall: float
    queries_per_second: float
    k: int
    queries: int
    images: int
    engine: str
    date: str

    def __str__(self) -> str:
        return (
            f"{self.engine}: recall {100 * self.recall:.2f} % of the {self.k} nearest, "
            f"{self.queries_per_second:.0f} queries per second ({self.queries} queries, {self.images} images)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def check_index(folder: str | Path) -> IndexCheck:
    """Measures an index, with some of its images as queries, and stores the result in it.

    Raises:
        FileError: no index, or another process is changing it.
        ArgumentError: the index is empty.
    """
    with ImageIndex.open(folder, writable=True) as index:
        if not len(index):
            raise ArgumentError(f"the index '{folder}' is empty; add images with: lookalike index")
        ids = index.catalog.ids()
        drawn = np.sort(np.random.default_rng(0).choice(ids, min(QUERIES, len(ids)), replace=False))
        queries = index.engine.vectors(drawn)
        k = min(K, len(ids))
        recall, rate = measure(index.engine, queries, k)
        done = IndexCheck(
            recall,
            rate,
            k,
            len(queries),
            len(ids),
            index.facts.engine,
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        index.set_facts(check=done.to_dict())
    return done


def measure(engine: Engine, queries_QD: Floats, k: int) -> tuple[float, float]:
    """(recall of the `k` nearest, queries per second) of an engine."""
    bar = kth_similarity(engine, queries_QD, k)
    engine.search(queries_QD[:1], k)  # the first search opens files
    began = time.perf_counter()
    found = np.concatenate([engine.search(query[None], k).similarities for query in queries_QD])
    seconds = time.perf_counter() - began
    recall = float((found >= bar[:, None] - TOLERANCE).mean())
    return recall, len(queries_QD) / seconds


def kth_similarity(engine: Engine, queries_QD: Floats, k: int) -> Floats:
    """The similarity of each query's true `k`-th neighbor, by comparing with every stored vector.

    Raises:
        FileError: a stored vector is not one that was written.
    """
    ids = engine.ids()
    queries = torch.from_numpy(queries_QD)
    best = torch.empty((len(queries), 0))
    for start in range(0, len(ids), _BLOCK):
        block = torch.from_numpy(engine.vectors(ids[start : start + _BLOCK]))
        if not torch.allclose(block.norm(dim=1), torch.ones(()), atol=UNIT):
            raise FileError(f"a stored vector is not of unit length, so the vectors are damaged; {REMEDY}")
        best = torch.cat([best, queries @ block.T], dim=1)
        best = best.topk(min(k, best.shape[1]), dim=1).values
    kth: Floats = best[:, -1].numpy()
    return kth
