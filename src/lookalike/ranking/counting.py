"""How many wrong gallery rows stand ahead of each right one: the one count that every retrieval metric needs.

For a query, the *positives* are the gallery rows of its class (its own row removed by position), everything
else is a *negative*. Sorted by the number of negatives ahead of it, the m-th positive has rank
m + negatives ahead, whatever the order of the positives among themselves. So one counting pass over blocks
of similarities replaces sorting. A positive with more negatives ahead than any metric looks at is dropped,
except the best of each query, whose rank is always exact. When every row is both query and gallery, a block
of similarities serves its rows and its columns: half of the matrix product is enough.

Legend: Q queries, N gallery rows, P (query, positive) pairs in all, B x M a tile of similarities.
"""

from dataclasses import dataclass

import numpy as np
import torch

from lookalike.ranking.tiles import Counter
from lookalike.ranking.vectors import Comparison

_LARGE_CLASS = 24


@dataclass(frozen=True)
class Positives:
    """Gallery rows of each query's class: those of query i are index[offset[i]:offset[i + 1]], ascending."""

    offset: np.ndarray  # int64 (Q + 1,)
    index: np.ndarray  # int64 (P,)

    def counts(self) -> np.ndarray:
        """R of each query."""
        return np.diff(self.offset)

    def owner(self) -> np.ndarray:
        """Query of each pair, (P,)."""
        return np.repeat(np.arange(len(self.offset) - 1), self.counts())

    def slice(self, start: int, stop: int) -> "Positives":
        """Those of queries start..stop-1."""
        low, high = self.offset[start], self.offset[stop]
        return Positives(self.offset[start : stop + 1] - low, self.index[low:high])


@dataclass(frozen=True)
class Ahead:
    """Negatives ahead of each (query, positive) pair, arrays (P,) int64.

    greater: strictly more similar than the positive. tied: exactly as similar. tied_before: those of them
    with a lower gallery index. A pair that has more than the query's `limit` strictly ahead, and is not the
    query's most similar positive, is out of reach of every metric: greater is the size of the gallery, the
    other two 0.
    """

    greater: np.ndarray
    tied: np.ndarray
    tied_before: np.ndarray


def positives_of(query_labels: np.ndarray, gallery_labels: np.ndarray, own: np.ndarray | None) -> Positives:
    """The positives of each query; `own` (Q,) is its own gallery position or -1."""
    order = np.argsort(gallery_labels, kind="stable")
    ordered = gallery_labels[order]
    first = np.searchsorted(ordered, query_labels, side="left")
    size = np.searchsorted(ordered, query_labels, side="right") - first
    owner = np.repeat(np.arange(len(query_labels)), size)
    start = np.concatenate([[0], np.cumsum(size)])
    index = order[np.repeat(first, size) + np.arange(len(owner)) - np.repeat(start[:-1], size)]
    if own is not None:
        keep = index != own[owner]
        index, owner = index[keep], owner[keep]
    offset = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(query_labels)))])
    return Positives(offset.astype(np.int64), index.astype(np.int64))


def count_ahead(
    comparison: Comparison,
    positives: Positives,
    own: np.ndarray | None,
    *,
    start: int,
    limit: np.ndarray,
    query_block: int,
    gallery_block: int,
) -> Ahead:
    """Counts for the queries start..start+Q-1 of `comparison`, whose positives are `positives`.

    Args:
        own: (Q,) gallery position of each query's own row, or -1.
        limit: (Q,) a positive with more negatives ahead is not followed further (except the best one).
        query_block, gallery_block: rows of a tile; any size gives the same counts. Square tiles let a tile
            serve both sides.
    """
    queries = len(positives.offset) - 1
    symmetric = (
        comparison.queries is comparison.gallery
        and queries == len(comparison.gallery)
        and query_block == gallery_block
        and len(positives.index) <= _LARGE_CLASS * queries
    )
    counter = Counter(comparison, positives.offset, positives.index, own, start, limit, symmetric)
    size = len(comparison.gallery)
    for first in range(0, queries, query_block):
        last = min(first + query_block, queries)
        left = comparison.query_operand(comparison.queries.block(start + first, start + last))
        for begin in range(first if symmetric else 0, size, gallery_block):
            end = min(begin + gallery_block, size)
            right = comparison.gallery_operand(comparison.gallery.block(begin, end))
            sims = counter.tile(left, right, first, begin)
            counter.count(sims, first, last, begin)
            if symmetric and begin > first:
                counter.count(sims.T, begin, end, first)
    return Ahead(*(array.cpu().numpy() for array in counter.finish()))
