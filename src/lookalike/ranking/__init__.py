"""Who is near whom: exact neighbors and exact ranks, in blocks; the only code that decides it.

Search asks for the `nearest` rows, evaluation for the number of wrong rows ahead of each right one
(`count_ahead`). Both compare in float32, settle whatever the rounding could change by an exact similarity,
remove a row's own entry by position, and order ties by index.
"""

from lookalike.ranking.knn import nearest
from lookalike.ranking.positives import Positives, positives_of
from lookalike.ranking.rank_counts import Ahead, count_ahead
from lookalike.ranking.similarity import SIMILARITIES, Comparison, Vectors

__all__ = [
    "SIMILARITIES",
    "Ahead",
    "Comparison",
    "Positives",
    "Vectors",
    "count_ahead",
    "nearest",
    "positives_of",
]
