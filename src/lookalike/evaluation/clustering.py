"""k-means clusters of embeddings, and the metrics of METRICS that compare them with the classes.

The numbers depend on the k-means engine, its start and its iterations, so all of them are in the result.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from lookalike.errors import ArgumentError
from lookalike.evaluation.metrics import METRICS
from lookalike.utils.validation import check_at_least, check_choice, is_installed, optional_import

ENGINES = ("auto", "faiss", "sklearn", "minibatch")


@dataclass(frozen=True)
class Clustering:
    """How to cluster.

    Args:
        engine: 'faiss' (Lloyd, random start; the fast one), 'sklearn' (Lloyd, k-means++ start up to 1,000
            clusters, random above), 'minibatch' (the same starts, some samples per step) or 'auto':
            faiss if it is installed, else scikit-learn.
        clusters: k; the number of classes by default.
        restarts: starts, of which the best objective counts; by default 10, or 1 above 1,000 clusters.
        iterations: of Lloyd's algorithm, 20 by default; passes over the data for 'minibatch', 5 by default.
        seed: of the starts.
    """

    engine: str = "auto"
    clusters: int | None = None
    restarts: int | None = None
    iterations: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("engine", self.engine, ENGINES)
        for what in ("clusters", "restarts", "iterations"):
            if getattr(self, what) is not None:
                check_at_least(what, getattr(self, what), 1)


def cluster_scores(
    embeddings: Any, labels: Any, *, clustering: Clustering | None = None, normalize: bool = True
) -> dict[str, Any]:
    """Every metric of clusters, and `settings`: engine, clusters, restarts, iterations and seed.

    Args:
        embeddings: (N, D).
        labels: (N,) integers.
        clustering: engine, restarts, seed.
        normalize: cluster unit vectors (cosine) rather than the vectors as they are.

    Raises:
        ArgumentError: more clusters than rows.
        MissingExtraError: engine 'faiss' without faiss.
    """
    wanted = clustering or Clustering()
    matrix = embeddings.detach().cpu().float().numpy() if torch.is_tensor(embeddings) else embeddings
    matrix = np.array(matrix, dtype=np.float32)
    labels = labels.detach().cpu().numpy() if torch.is_tensor(labels) else np.asarray(labels)
    if normalize:
        matrix /= np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-30)
    clusters = wanted.clusters or len(np.unique(labels))
    if clusters > len(matrix):
        raise ArgumentError(f"clusters is {clusters}, but there are {len(matrix)} rows; give at most as many")
    engine = _engine(wanted.engine)
    restarts = wanted.restarts or (10 if clusters <= 1000 else 1)
    iterations = wanted.iterations or (5 if engine == "minibatch" else 20)
    assigned = _ASSIGN[engine](matrix, clusters, restarts, iterations, wanted.seed)
    settings = asdict(Clustering(engine, clusters, restarts, iterations, wanted.seed))
    scores = {
        one.key: one.of_clusters(labels, assigned) for one in METRICS.values() if one.of_clusters is not None
    }
    return {**scores, "settings": settings}


def _engine(name: str) -> str:
    if name != "auto":
        return name
    return "faiss" if is_installed("faiss") else "sklearn"


def _by_faiss(matrix: np.ndarray, clusters: int, restarts: int, iterations: int, seed: int) -> np.ndarray:
    faiss = optional_import("faiss", "faiss")
    engine = faiss.Kmeans(
        matrix.shape[1],
        clusters,
        niter=iterations,
        nredo=restarts,
        seed=seed,
        min_points_per_centroid=1,
        max_points_per_centroid=len(matrix),
    )
    engine.train(matrix)
    return np.asarray(engine.index.search(matrix, 1)[1][:, 0])


def _by_sklearn(matrix: np.ndarray, clusters: int, restarts: int, iterations: int, seed: int) -> np.ndarray:
    from sklearn.cluster import KMeans

    start = "k-means++" if clusters <= 1000 else "random"
    engine = KMeans(clusters, init=start, n_init=restarts, max_iter=iterations, random_state=seed)
    return _quietly(engine, matrix)


def _by_minibatch(matrix: np.ndarray, clusters: int, restarts: int, iterations: int, seed: int) -> np.ndarray:
    from sklearn.cluster import MiniBatchKMeans

    engine = MiniBatchKMeans(
        clusters,
        init="k-means++" if clusters <= 1000 else "random",
        n_init=restarts,
        max_iter=iterations,
        random_state=seed,
        batch_size=max(2048, clusters),
        init_size=max(3 * clusters, 6144) if len(matrix) > 3 * clusters else None,
        reassignment_ratio=0.0,
    )
    return _quietly(engine, matrix)


def _quietly(engine: Any, matrix: np.ndarray) -> np.ndarray:
    """Fits without the warnings about fewer distinct rows than clusters and about the last iteration."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(engine.fit_predict(matrix))


_ASSIGN = {"faiss": _by_faiss, "sklearn": _by_sklearn, "minibatch": _by_minibatch}
