"""The columns that a study can ask for: how each is computed from a finished run.

| key                     | what                                                                        |
|-------------------------|-----------------------------------------------------------------------------|
| recall_at_K, map_at_r, r_precision, mrr | of the test classes, by cosine                              |
| euclidean_...           | the same on raw vectors by Euclidean distance, as ProxyNCA++'s code compares |
| nmi, nmi_geometric, ami | of the test embeddings, k-means with as many clusters as classes            |
| seconds_per_epoch       | mean over the trained epochs                                                |
| peak_memory_mb          | of the GPU; absent without one                                              |
"""

import re

import numpy as np
import torch
from numpy.typing import NDArray

from lookalike.data.dataset import LabeledImages
from lookalike.errors import UnknownNameError
from lookalike.evaluation.clustering import Clustering, cluster_scores
from lookalike.training.evaluate_run import score
from lookalike.utils.validation import near_miss

PLAIN = ("map_at_r", "r_precision", "mrr")
CLUSTERING = ("nmi", "nmi_geometric", "ami")
COSTS = ("seconds_per_epoch", "peak_memory_mb")
EUCLIDEAN = "euclidean_"


def check_metric(key: str) -> None:
    """Refuses a key that nothing here computes.

    Raises:
        UnknownNameError: with the near miss.
    """
    known = ("recall_at_1", *PLAIN, *COSTS, *CLUSTERING)
    plain = key.removeprefix(EUCLIDEAN)
    if plain not in known and not re.fullmatch(r"recall_at_[1-9]\d*", plain):
        raise UnknownNameError(
            f"unknown metric '{key}'{near_miss(key, known)} (known: {', '.join(known)}, recall_at_K)"
        )


def measure(
    table: LabeledImages, matrix: NDArray[np.float32], keys: tuple[str, ...], *, seed: int = 0
) -> dict[str, float]:
    """The retrieval and clustering metrics among `keys`, of embeddings (N, D) of the images of `table`."""
    found: dict[str, float] = {}
    for prefix, similarity in (("", "cosine"), (EUCLIDEAN, "euclidean")):
        wanted = [key for key in keys if _is_retrieval(key) and key.startswith(EUCLIDEAN) == bool(prefix)]
        if wanted:
            ks = sorted({int(key.rsplit("_", 1)[1]) for key in wanted if "recall_at_" in key}) or [1]
            values = score(table, matrix, ks=ks, similarity=similarity).values
            found |= {key: values[key.removeprefix(prefix)] for key in wanted}
    if clustered := [key for key in keys if key in CLUSTERING]:
        scores = cluster_scores(matrix, table.labels, clustering=Clustering(seed=seed))
        found |= {key: scores[key] for key in clustered}
    return found


def peak_memory_mb() -> float | None:
    """Most memory that tensors took on the GPU since `forget_peak`, or None without a GPU."""
    return torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_available() else None


def forget_peak() -> None:
    """Begins to measure anew."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def _is_retrieval(key: str) -> bool:
    return key not in CLUSTERING and key not in COSTS
