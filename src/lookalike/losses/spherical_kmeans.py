"""k-means of unit vectors, without empty clusters: groups of classes for HPL, of images for Divide and Conquer.

Shapes: N vectors, K clusters, D dimension.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray


def spherical_kmeans(
    unit_ND: NDArray[Any], clusters: int, *, start_KD: NDArray[Any] | None = None, seed: int = 0
) -> NDArray[np.int64]:
    """Cluster of each unit vector: k-means, then the nearest of its centers at length 1.

    Args:
        start_KD: centers to start from; drawn by k-means++ from the seed when None.

    An empty cluster gets the vector that is farthest from its own center, among clusters of two or more.
    """
    from sklearn.cluster import KMeans  # 95 MB of memory and most of a second, which other losses do not need
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():  # of fewer distinct vectors than clusters, which is handled below
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = "k-means++" if start_KD is None else start_KD
        centers_KD = KMeans(clusters, init=start, n_init=1, random_state=seed).fit(unit_ND).cluster_centers_
    lengths_K1 = np.linalg.norm(centers_KD, axis=1, keepdims=True)
    cosines_NK = unit_ND @ (centers_KD / np.maximum(lengths_K1, 1e-12)).T
    nearest_N = cosines_NK.argmax(axis=1)
    for empty in np.setdiff1d(np.arange(clusters), nearest_N):
        to_center_N = cosines_NK[np.arange(len(nearest_N)), nearest_N]
        singleton_N = np.bincount(nearest_N, minlength=clusters)[nearest_N] == 1
        nearest_N[np.where(singleton_N, np.inf, to_center_N).argmin()] = empty
    return np.asarray(nearest_N, dtype=np.int64)
