"""The metrics of every query, block by block within a memory bound, shared among processes if there are any."""

from collections.abc import Sequence

import numpy as np
import torch

from lookalike.evaluation.metrics import METRICS
from lookalike.evaluation.ranks import Floats, Ranks
from lookalike.ranking import Comparison, QuerySet, count_ranks
from lookalike.utils.distributed import Processes


def measure_queries(
    comparison: Comparison,
    query_set: QuerySet,
    ks: Sequence[int],
    *,
    memory_mb: float,
    query_block: int | None,
    processes: Processes,
) -> tuple[dict[str, Floats], np.ndarray]:
    """Result key -> (Q,) values, NaN for queries without positives; and (Q,) whether a tie touches a query.

    A K beyond what a query can retrieve counts as that number.
    """
    most = max(1, len(query_set.gallery_labels) - int((query_set.own >= 0).all()))
    metrics = [metric for metric in METRICS.values() if metric.of_clusters is None]
    keys = [key for metric in metrics for key in metric.keys(ks)]
    mine = np.arange(processes.rank, len(query_set), processes.size)
    table = np.full((len(mine), len(keys) + 2), np.nan)
    done = 0
    for counts in count_ranks(
        comparison,
        query_set,
        mine,
        k=min(max(ks), most),
        memory_mb=memory_mb,
        query_block=query_block,
    ):
        ranks = Ranks.from_counts(counts.owner, counts.ahead, counts.positives)
        tied = np.bincount(counts.owner[counts.tied > 0], minlength=len(counts.queries)) > 0
        block = table[done : done + len(counts.queries)]
        block[:, 0], block[:, 1] = counts.queries, tied
        columns = [
            column for metric in metrics for column in metric.compute(ranks, [min(k, most) for k in ks])
        ]
        block[:, 2:] = np.column_stack(columns)
        block[counts.positives == 0, 2:] = np.nan
        done += len(counts.queries)
    whole = processes.gather(torch.from_numpy(table).to(comparison.device)).cpu().numpy()
    whole = whole[np.argsort(whole[:, 0])]
    return {key: whole[:, at].copy() for at, key in enumerate(keys, start=2)}, whole[:, 1] > 0
