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

from lookalike.ranking.pairs import LARGE_CLASS, Pairs
from lookalike.ranking.positives import Positives
from lookalike.ranking.similarity import Comparison, full_precision
from lookalike.ranking.tiles import Counter


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
    with full_precision(comparison.queries.device):
        queries = len(positives.offset) - 1
        symmetric = (
            comparison.queries is comparison.gallery
            and queries == len(comparison.gallery)
            and query_block == gallery_block
        )
        mutual = symmetric and len(positives.index) <= LARGE_CLASS * queries
        pairs = Pairs(comparison, positives, start, limit, mutual)
        counter = Counter(pairs, own)
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
        return Ahead(*(array.cpu().numpy() for array in pairs.finish()))
