"""The metrics of every query, in parts that keep to a memory bound, shared among processes if there are any.

Legend: Q queries, P (query, positive) pairs of a part.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from lookalike.evaluation.metrics import expected_metrics, retrieval_metrics
from lookalike.ranking import Ahead, Comparison, Positives, count_ahead, positives_of
from lookalike.utils.distributed import Processes
from lookalike.utils.validation import check_at_least

TIES = ("index", "optimistic", "pessimistic", "expected")
_BYTES_A_PAIR = 160  # a pair in flight, with everything kept about it
_BYTES_A_SIMILARITY = 12  # an entry of a tile, with its masks
_LARGE_CLASS = 256


@dataclass(frozen=True)
class Asked:
    """Who asks: classes of the queries (Q,) and of the gallery (N,), own gallery positions (Q,) or None."""

    labels: np.ndarray
    gallery_labels: np.ndarray
    own: np.ndarray | None

    def relevant(self) -> np.ndarray:
        """R of each query, (Q,)."""
        ordered = np.sort(self.gallery_labels)
        found = np.searchsorted(ordered, self.labels, side="right")
        found -= np.searchsorted(ordered, self.labels, side="left")
        return found if self.own is None else found - (self.own >= 0)


def measure_queries(
    comparison: Comparison,
    asked: Asked,
    ks: Sequence[int],
    *,
    ties: str,
    memory_mb: float,
    query_block: int | None,
    gallery_block: int | None,
    processes: Processes,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Metric key -> (Q,) values, NaN where a query has nothing to find; and (Q,) whether a tie touches it."""
    for what, block in (("query_block", query_block), ("gallery_block", gallery_block)):
        if block is not None:
            check_at_least(what, block, 1)
    relevant = asked.relevant()
    ends = np.cumsum(relevant)
    allowed = memory_mb * 2**20 / 2 / _BYTES_A_PAIR
    start, end = processes.share(len(relevant))
    keys = _keys(ks)
    parts = [np.zeros((0, len(keys) + 1))]
    while start < end:
        done = ends[start] - relevant[start]
        stop = min(end, max(int(np.searchsorted(ends, done + allowed, side="right")), start + 1))
        tall, wide = _blocks(relevant[start:stop], len(comparison.gallery), memory_mb)
        own = None if asked.own is None else asked.own[start:stop]
        positives = positives_of(asked.labels[start:stop], asked.gallery_labels, own)
        ahead = count_ahead(
            comparison,
            positives,
            own,
            start=start,
            limit=np.maximum(relevant[start:stop], max(ks)),
            query_block=query_block or tall,
            gallery_block=gallery_block or wide,
        )
        values = _metrics(positives, ahead, ks, ties)
        touched = np.bincount(positives.owner()[ahead.tied > 0], minlength=stop - start) > 0
        parts.append(np.column_stack([*(values[key] for key in keys), touched]))
        start = stop
    mine = torch.from_numpy(np.concatenate(parts)).to(comparison.queries.device)
    table = processes.gather(mine).cpu().numpy()
    return {key: table[:, at].copy() for at, key in enumerate(keys)}, table[:, -1] > 0


def _keys(ks: Sequence[int]) -> list[str]:
    by_k = [f"{kind}_at_{k}" for kind in ("recall", "precision", "ir_recall") for k in ks]
    return [*by_k, "map_at_r", "r_precision", "mrr"]


def _blocks(relevant: np.ndarray, gallery: int, memory_mb: float) -> tuple[int, int]:
    """Rows of a tile: square, or wide where classes are so large that every look at a tile is dear."""
    side = max(8, min(2048, int((memory_mb * 2**20 / 4 / _BYTES_A_SIMILARITY) ** 0.5)))
    if relevant.mean() < _LARGE_CLASS:
        return side, side
    wide = max(side, min(gallery, 32 * side))
    return max(8, side * side // wide), wide


def _metrics(positives: Positives, ahead: Ahead, ks: Sequence[int], ties: str) -> dict[str, np.ndarray]:
    extra = {"index": ahead.tied_before, "optimistic": 0, "pessimistic": ahead.tied, "expected": 0}[ties]
    owner = positives.owner()
    values = retrieval_metrics(owner, ahead.greater + extra, positives.counts(), ks)
    if ties == "expected":
        for query in np.unique(owner[ahead.tied > 0]):
            part = slice(positives.offset[query], positives.offset[query + 1])
            for key, value in expected_metrics(ahead.greater[part], ahead.tied[part], ks).items():
                values[key][query] = value
    return values
