"""Retrieval metrics as pure functions of ranks: one number in 0..1 per query.

Legend: Q queries, P (query, positive) pairs, R_q positives of query q.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_NONE = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Ranks:
    """Ranks of the positives of Q queries.

    Attributes:
        owner: (P,) query of each pair, ascending.
        rank: (P,) rank of the positive, from 1, ascending per query.
        position: (P,) its position among the query's positives, from 1.
        relevant: (Q,) R of each query.
    """

    owner: Integers
    rank: Integers
    position: Integers
    relevant: Integers

    @classmethod
    def from_counts(cls, owner: Integers, ahead: Integers, relevant: Integers) -> "Ranks":
        """Ranks from the number of negatives ahead of each positive: the m-th nearest has rank m + ahead."""
        ahead = ahead[np.lexsort((ahead, owner))]
        position = np.arange(len(ahead)) - np.repeat(np.cumsum(relevant) - relevant, relevant) + 1
        return cls(owner, ahead + position, position, relevant)

    @cached_property
    def best(self) -> Integers:
        """(Q,) rank of the nearest positive."""
        best = np.full(len(self.relevant), _NONE)
        first = self.position == 1
        best[self.owner[first]] = self.rank[first]
        return best

    @cached_property
    def within_r(self) -> NDArray[np.bool_]:
        """(P,) whether the positive is among the R nearest."""
        return self.rank <= self.relevant[self.owner]

    def add_up(self, values: Floats | Integers | NDArray[np.bool_]) -> Floats:
        """(Q,) sums of one value per pair."""
        sums = np.bincount(self.owner, weights=values, minlength=len(self.relevant))
        return sums.astype(np.float64, copy=False)

    def share(self, values: Floats | Integers | NDArray[np.bool_]) -> Floats:
        """(Q,) sums of one value per pair, divided by R."""
        return self.add_up(values) / np.maximum(self.relevant, 1)


def recall_at_k(ranks: Ranks, k: int) -> Floats:
    """1 if any of the k nearest is a positive, else 0."""
    return (ranks.best <= k).astype(np.float64)


def precision_at_k(ranks: Ranks, k: int) -> Floats:
    """Share of the k nearest that are positives."""
    return ranks.add_up(ranks.rank <= k) / k


def ir_recall_at_k(ranks: Ranks, k: int) -> Floats:
    """Share of the positives that are among the k nearest."""
    return ranks.share(ranks.rank <= k)


def r_precision(ranks: Ranks) -> Floats:
    """Share of the R nearest that are positives."""
    return ranks.share(ranks.within_r)


def map_at_r(ranks: Ranks) -> Floats:
    """Sum of the precision at each positive among the R nearest, divided by R."""
    return ranks.share(np.where(ranks.within_r, ranks.position / ranks.rank, 0.0))


def mrr(ranks: Ranks) -> Floats:
    """One over the rank of the nearest positive."""
    return 1.0 / ranks.best
