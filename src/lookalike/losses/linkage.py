"""Trees of classes by linkage: which classes are one node where nodes nearer than a threshold are merged.

Shapes: N images, D dimension, C classes, L levels of the tree above its leaves.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def class_spreads(unit_ND: Tensor, labels_N: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    """Mean vectors (C, D), and mean squared distances (C,) of two images of one class.

    A class of fewer than two images gets the mean of the others.
    """
    count_C = torch.bincount(labels_N, minlength=num_classes).to(unit_ND.dtype)
    sum_CD = unit_ND.new_zeros(num_classes, unit_ND.shape[1]).index_add_(0, labels_N, unit_ND)
    pairs_C = count_C * (count_C - 1)
    spread_C = (2 * count_C**2 - 2 * sum_CD.square().sum(dim=1)) / pairs_C
    has_pairs_C = pairs_C > 0
    spread_C = torch.where(has_pairs_C, spread_C, spread_C[has_pairs_C].mean())
    return sum_CD / count_C.clamp_min(1)[:, None], spread_C


def nodes_by_level(
    mean_CD: Tensor, count_C: Tensor, thresholds: NDArray[np.float64], merge: str
) -> NDArray[np.int64]:
    """The node of each class on each level (L+1, C): nodes nearer than the level's threshold are one.

    d(p, q) = mean squared distance of an image of p and one of q = 2 - 2 <mean_p, mean_q>
    """
    from scipy.sparse import coo_array  # slow to import, and needed here only
    from scipy.sparse.csgraph import connected_components

    means, classes = mean_CD.double().numpy(), len(mean_CD)
    if merge == "components":
        first, second = np.triu_indices(classes, k=1)
        heights = (2 - 2 * means @ means.T)[first, second]
    else:
        first, second, heights = average_merges(means, count_C.double().numpy())
    nodes = np.zeros((len(thresholds), classes), dtype=np.int64)
    for level, threshold in enumerate(thresholds[:-1]):  # the last level is one node
        near = heights < threshold
        edges = coo_array((near[near], (first[near], second[near])), shape=(classes, classes))
        nodes[level] = connected_components(edges, directed=False)[1]
    return nodes


def average_merges(
    means: NDArray[np.float64], counts: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The merges of average linkage over images: a class of each of the two nodes, and their distance.

    Nearest neighbors are followed until two are each other's, which then merge: C^2 distances, C at a time.
    """
    means, counts = means.copy(), np.maximum(counts, 1)
    there, chain = np.ones(len(means), dtype=bool), [0]
    merges: list[tuple[int, int, float]] = []
    while len(merges) < len(means) - 1:
        tip = chain[-1]
        distances = np.where(there, 2 - 2 * means @ means[tip], np.inf)
        distances[tip] = np.inf
        nearest = int(distances.argmin())
        if len(chain) > 1 and distances[chain[-2]] <= distances[nearest]:
            nearest = chain[-2]
            merges.append((tip, nearest, float(distances[nearest])))
            total = counts[tip] + counts[nearest]
            means[nearest] = (counts[tip] * means[tip] + counts[nearest] * means[nearest]) / total
            counts[nearest], there[tip] = total, False
            chain = chain[:-2] or [nearest]
        else:
            chain.append(nearest)
    first, second, heights = zip(*merges, strict=True)
    return np.array(first), np.array(second), np.array(heights)
