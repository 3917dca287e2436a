"""Exact nearest neighbors and exact rank counts, in blocks and in bounded memory.

`nearest` returns the k most similar gallery rows of each query; `count_ranks` counts, for each positive of
each query, the negatives ahead of it. Both filter with a float32 matrix product and compare in float64
whatever its rounding could change, so the result does not depend on block sizes, processes or the device.
"""

from lookalike.ranking.knn import nearest
from lookalike.ranking.query_set import QuerySet
from lookalike.ranking.rank_counts import RankCounts, count_ranks
from lookalike.ranking.similarity import SIMILARITIES, Comparison
from lookalike.ranking.vectors import Vectors, comparison_device

__all__ = [
    "SIMILARITIES",
    "Comparison",
    "QuerySet",
    "RankCounts",
    "Vectors",
    "comparison_device",
    "count_ranks",
    "nearest",
]
