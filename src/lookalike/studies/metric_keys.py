"""Keys of the metrics that a study can measure.

| key | what |
|---|---|
| recall_at_K, map_at_r, r_precision, mrr | retrieval of the test images, compared as the row's recipe says |
| nmi, nmi_geometric, ami | k-means of the test embeddings with as many clusters as classes |
| cosine_..., euclidean_... | the same of unit vectors, or of raw ones by Euclidean distance, whatever the recipe says |
| seconds_per_epoch, seconds_per_iteration | mean over the trained epochs |
| hours_to_convergence | training time until the selected epoch |
| peak_memory_gb | of the GPU; absent without one |
"""

import re

from lookalike.errors import UnknownNameError
from lookalike.evaluation.metrics import METRICS
from lookalike.utils.validation import near_miss

RETRIEVAL = tuple(key for key, metric in METRICS.items() if metric.of_ranks is not None)
CLUSTERING = tuple(key for key, metric in METRICS.items() if metric.of_clusters is not None)
COSTS = ("seconds_per_epoch", "seconds_per_iteration", "hours_to_convergence", "peak_memory_gb")
"""Metrics that are not shares, so not shown in percent."""
SIMILARITIES = ("cosine", "euclidean")


def split_key(key: str) -> tuple[str | None, str]:
    """The similarity that a key insists on, if any, and the key without it."""
    first, _, rest = key.partition("_")
    return (first, rest) if first in SIMILARITIES else (None, key)


def check_metric(key: str) -> None:
    """Refuses a key that nothing computes.

    Raises:
        UnknownNameError: with the near miss.
    """
    known = ("recall_at_1", *RETRIEVAL, *CLUSTERING, *COSTS)
    similarity, plain = split_key(key)
    allowed = known if similarity is None else (*RETRIEVAL, *CLUSTERING)
    if plain not in allowed and not re.fullmatch(r"recall_at_[1-9]\d*", plain):
        raise UnknownNameError(
            f"unknown metric '{key}'{near_miss(key, known)} (known: {', '.join(known)}, recall_at_K; retrieval and "
            "clustering also with cosine_ or euclidean_ before them)"
        )
