"""k-means clusters of embeddings, and the metrics of METRICS that compare them with the classes.

The numbers depend on the k-means engine and on its starts, so both are in the result.
"""

import warnings
from typing import Any

import numpy as np
import torch

from lookalike.errors import ArgumentError
from lookalike.evaluation.metrics import METRICS
from lookalike.utils.validation import check_choice, is_installed, optional_import

ITERATIONS = 20
MANY = 1000
"""From more clusters on there is one random start; up to here, ten."""


def cluster_scores(
    embeddings: Any, labels: Any, *, engine: str = "auto", seed: int = 0, normalize: bool = True
) -> dict[str, Any]:
    """Every metric of clusters, and `settings`: engine, clusters, restarts, iterations and seed.

    There are as many clusters as classes. Of the restarts the one with the best objective counts.

    Args:
        embeddings: (N, D).
        labels: (N,) integers.
        engine: Lloyd's algorithm of "faiss" (random start; the fast one) or "sklearn" (k-means++ start up to 1,000
            clusters, random above), or "auto": faiss if it is installed, else scikit-learn.
        seed: of the starts.
        normalize: cluster unit vectors (cosine) rather than the vectors as they are.

    Raises:
        MissingExtraError: engine "faiss" without faiss.
    """
    check_choice("engine", engine, ("auto", *_ASSIGN))
    if engine == "auto":
        engine = "faiss" if is_installed("faiss") else "sklearn"
    matrix = embeddings.detach().cpu().float().numpy() if torch.is_tensor(embeddings) else embeddings
    matrix = np.array(matrix, dtype=np.float32)
    labels = labels.detach().cpu().numpy() if torch.is_tensor(labels) else np.asarray(labels)
    if labels.shape != matrix.shape[:1]:
        raise ArgumentError(f"labels have shape {labels.shape}; expected ({len(matrix)},), one per embedding")
    if normalize:
        matrix /= np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-30)
    clusters = len(np.unique(labels))
    restarts = 10 if clusters <= MANY else 1
    assigned = _ASSIGN[engine](matrix, clusters, restarts, seed)
    scores = {
        one.key: one.of_clusters(labels, assigned) for one in METRICS.values() if one.of_clusters is not None
    }
    settings = {
        "engine": engine,
        "clusters": clusters,
        "restarts": restarts,
        "iterations": ITERATIONS,
        "seed": seed,
    }
    return {**scores, "settings": settings}


def _by_faiss(matrix: np.ndarray, clusters: int, restarts: int, seed: int) -> np.ndarray:
    faiss = optional_import("faiss", "faiss")
    engine = faiss.Kmeans(
        matrix.shape[1],
        clusters,
        niter=ITERATIONS,
        nredo=restarts,
        seed=seed,
        min_points_per_centroid=1,
        max_points_per_centroid=len(matrix),
    )
    engine.train(matrix)
    return np.asarray(engine.index.search(matrix, 1)[1][:, 0])


def _by_sklearn(matrix: np.ndarray, clusters: int, restarts: int, seed: int) -> np.ndarray:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    start = "k-means++" if clusters <= MANY else "random"
    engine = KMeans(clusters, init=start, n_init=restarts, max_iter=ITERATIONS, random_state=seed)
    with warnings.catch_warnings():  # of fewer distinct rows than clusters, and of the last iteration
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(engine.fit_predict(matrix))


_ASSIGN = {"faiss": _by_faiss, "sklearn": _by_sklearn}
