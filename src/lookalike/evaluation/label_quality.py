"""Images whose neighbors doubt their label, outliers, and near-duplicates by embedding."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookalike.ranking import nearest

NEIGHBORS = 10
AGREE = 0.6
"""Share of an image's neighbors that must have one other label."""
SAME = 0.99
"""Cosine from which on two embeddings count as those of one image."""
FAR = 3.0
"""Outliers lie this many interquartile ranges below the first quartile of similarity to the nearest image."""


@dataclass(frozen=True)
class Mislabeled:
    """An image whose neighbors have another label: `share` of them have label `suggested`."""

    row: int
    suggested: int
    share: float


@dataclass(frozen=True)
class LabelQuality:
    """What the neighbors of each image say.

    Attributes:
        mislabeled: likely mislabeled images, the clearest first.
        outliers: rows that are unlike all others, the farthest first, with their similarity to the nearest.
        near_duplicates: pairs of rows with nearly the same embedding.
    """

    mislabeled: tuple[Mislabeled, ...]
    outliers: tuple[tuple[int, float], ...]
    near_duplicates: tuple[tuple[int, int], ...]


def judge_labels(embeddings: NDArray[np.float32], labels: NDArray[np.int64]) -> LabelQuality:
    """Compares each image with its nearest neighbors.

    An image is likely mislabeled when none of its neighbors has its label, at least AGREE of them have one
    other label, and its class has enough other images that some should be near.

    Args:
        embeddings: shape (N, D).
        labels: shape (N,).
    """
    if len(embeddings) < 3:
        return LabelQuality((), (), ())
    k = min(NEIGHBORS, len(embeddings) - 1)
    neighbors, similarities = nearest(embeddings, embeddings, k, self_index=np.arange(len(embeddings)))
    sizes = np.bincount(labels)
    mislabeled = []
    for row in range(len(embeddings)):
        around = labels[neighbors[row]]
        values, counts = np.unique(around, return_counts=True)
        best = int(counts.argmax())
        if sizes[labels[row]] > 2 and labels[row] not in values and counts[best] >= AGREE * k:
            mislabeled.append(Mislabeled(row, int(values[best]), float(counts[best] / k)))
    first = similarities[:, 0]
    low, high = np.quantile(first, [0.25, 0.75])
    far = np.flatnonzero(first < low - FAR * (high - low))
    same = np.argwhere(similarities >= SAME)
    pairs = {
        (min(row, other), max(row, other)) for row, at in same.tolist() for other in [int(neighbors[row, at])]
    }
    return LabelQuality(
        tuple(sorted(mislabeled, key=lambda one: -one.share)),
        tuple(sorted(((int(row), float(first[row])) for row in far), key=lambda pair: pair[1])),
        tuple(sorted(pairs)),
    )
