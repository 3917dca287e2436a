"""Retrieval metrics as pure functions of ranks.

Input everywhere: for each (query, positive) pair the number of negatives ahead of it, and the query that owns
the pair. From it follow the ranks of a query's positives: sorted by negatives ahead, the m-th has rank
m + negatives ahead. Output: one number a query, in 0..1.

Legend: Q queries, P pairs, R_q positives of query q.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def ranks_of_positives(owner_P: Integers, ahead_P: Integers, counts_Q: Integers) -> tuple[Integers, Integers]:
    """Ranks (from 1) and places among the positives (from 1), both (P,), pairs sorted by query and rank.

    Args:
        owner_P: query of each pair, ascending.
        ahead_P: negatives ahead of it.
        counts_Q: R_q.
    """
    ahead = ahead_P[np.lexsort((ahead_P, owner_P))]
    starts = np.concatenate([[0], np.cumsum(counts_Q)[:-1]]) if len(counts_Q) else np.zeros(0, dtype=np.int64)
    place = np.arange(len(ahead), dtype=np.int64) - np.repeat(starts, counts_Q) + 1
    return ahead + place, place


def retrieval_metrics(
    owner_P: Integers, ahead_P: Integers, counts_Q: Integers, ks: Sequence[int]
) -> dict[str, Floats]:
    """Every metric of every query; queries without positives get NaN.

    With rank_m the rank of the m-th nearest positive and h_k the positives among the k nearest:
        recall_at_k = 1 if rank_1 <= k else 0; precision_at_k = h_k / k; ir_recall_at_k = h_k / R;
        mrr = 1 / rank_1; r_precision = h_R / R; map_at_r = (1/R) sum over m with rank_m <= R of m / rank_m.
    """
    rank, place = ranks_of_positives(owner_P, ahead_P, counts_Q)
    queries = len(counts_Q)
    known = counts_Q > 0
    relevant = np.where(known, counts_Q, 1).astype(np.float64)
    best = np.full(queries, np.iinfo(np.int64).max)
    first = place == 1
    best[owner_P[first]] = rank[first]
    values: dict[str, Floats] = {}
    for k in ks:
        hits = np.bincount(owner_P[rank <= k], minlength=queries).astype(np.float64)
        values[f"recall_at_{k}"] = (best <= k).astype(np.float64)
        values[f"precision_at_{k}"] = hits / k
        values[f"ir_recall_at_{k}"] = hits / relevant
    inside = rank <= counts_Q[owner_P]
    values["r_precision"] = np.bincount(owner_P[inside], minlength=queries) / relevant
    gain = place[inside] / rank[inside]
    values["map_at_r"] = np.bincount(owner_P[inside], weights=gain, minlength=queries) / relevant
    values["mrr"] = 1.0 / best
    for array in values.values():
        array[~known] = np.nan
    return values


def expected_metrics(greater_R: Integers, tied_R: Integers, ks: Sequence[int]) -> dict[str, float]:
    """The metrics of one query, averaged over every order of its ties.

    Positives tied with negatives form a group of T places, m of them positives, behind s other places of
    which h are positives. Place s + i holds a positive with probability m / T, and given that, (i - 1)(m - 1)
    / (T - 1) of the group's places before it are expected to.

    Args:
        greater_R: negatives strictly more similar than each positive.
        tied_R: negatives exactly as similar.
    """
    order = np.lexsort((tied_R, greater_R))
    greater_R, tied_R = greater_R[order], tied_R[order]
    relevant = len(greater_R)
    hits = dict.fromkeys(ks, 0.0)
    found = dict.fromkeys(ks, 0.0)
    r_precision = map_at_r = mrr = 0.0
    earlier = 0  # positives in the groups before
    while earlier < relevant:
        greater, tied = int(greater_R[earlier]), int(tied_R[earlier])
        same = int(((greater_R == greater) & (tied_R == tied)).sum()) if tied else 1
        size, before = same + tied, greater + earlier
        inside = np.arange(1, size + 1)
        share = same / size
        r_precision += share * min(max(relevant - before, 0), size) / relevant
        within = inside[: max(relevant - before, 0)]
        of_group = (within - 1) * (same - 1) / max(size - 1, 1)
        map_at_r += float((share * (earlier + 1 + of_group) / (before + within)).sum()) / relevant
        if earlier == 0:  # open: no positive among the first i of the group
            still = np.cumprod(np.maximum(tied - inside + 1, 0) / (size - inside + 1))
            opened = np.concatenate([[1.0], still])
            mrr = float(((opened[:-1] - opened[1:]) / (before + inside)).sum())
            found = {k: 1.0 - float(opened[min(max(k - before, 0), size)]) for k in ks}
        for k in ks:
            hits[k] += share * min(max(k - before, 0), size)
        earlier += same
    values = {"r_precision": r_precision, "map_at_r": map_at_r, "mrr": mrr}
    for k in ks:
        values[f"recall_at_{k}"] = found[k]
        values[f"precision_at_{k}"] = hits[k] / k
        values[f"ir_recall_at_{k}"] = hits[k] / relevant
    return values


def mean_by_class(values_Q: Floats, labels_Q: Integers) -> tuple[Integers, Floats]:
    """Classes that have a scored query, and the mean over each one's scored queries (NaN are not scored)."""
    scored = ~np.isnan(values_Q)
    classes, inverse = np.unique(labels_Q[scored], return_inverse=True)
    total = np.bincount(inverse, weights=values_Q[scored], minlength=len(classes))
    return classes, total / np.maximum(np.bincount(inverse, minlength=len(classes)), 1)
