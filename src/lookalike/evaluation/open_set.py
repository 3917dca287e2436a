"""Open-set retrieval: how well queries of classes that are not in the gallery are separated from the others.

A query is *known* if its class is in the gallery. At a threshold t a known query is detected if its nearest
gallery image is of its class and at least t similar; an unknown query is a false match if its nearest gallery
image is at least t similar. The detection rate at a false-match rate f is taken at the lowest threshold at
which at most a share f of the unknown queries match (detection and identification rate).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lookalike.errors import ArgumentError
from lookalike.ranking import nearest
from lookalike.utils.hashing import hash_text

FALSE_MATCH_RATES = (0.001, 0.01, 0.1)
PAIRS, MANY = 5, 20_000
"""Pairs of halves of the classes that are averaged; one pair from so many images on, which takes as long."""

Bools = NDArray[np.bool_]
Floats = NDArray[Any]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class OpenSetResult:
    """Open-set figures.

    Attributes:
        detection_rates: false-match rate -> detection rate.
        auroc: probability that a known query's nearest image is more similar than an unknown query's.
        known, unknown: numbers of queries.
    """

    detection_rates: dict[float, float]
    auroc: float
    known: int
    unknown: int

    def __str__(self) -> str:
        rates = ", ".join(
            f"{100 * value:.1f} % at a false-match rate of {100 * rate:g} %"
            for rate, value in self.detection_rates.items()
        )
        return f"detected {rates}; AUROC {self.auroc:.3f} ({self.known:,} known, {self.unknown:,} unknown queries)"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        rates = {f"detection_at_fmr_{rate:g}": value for rate, value in self.detection_rates.items()}
        return {**rates, "auroc": self.auroc, "known_queries": self.known, "unknown_queries": self.unknown}


def open_set_figures(
    known_similarities: Floats,
    known_correct: Bools,
    unknown_similarities: Floats,
    *,
    rates: Sequence[float] = FALSE_MATCH_RATES,
) -> OpenSetResult:
    """The figures from each query's similarity to its nearest gallery image.

    Args:
        known_similarities: (K,) of queries whose class is in the gallery.
        known_correct: (K,) whether that nearest image is of the query's class.
        unknown_similarities: (U,) of queries whose class is not.

    Raises:
        ArgumentError: no known or no unknown query.
    """
    known, unknown = np.asarray(known_similarities), np.sort(np.asarray(unknown_similarities))
    if not len(known) or not len(unknown):
        raise ArgumentError(
            f"open-set figures need known and unknown queries; got {len(known)} and {len(unknown)}"
        )
    below = np.searchsorted(unknown, known, side="left")
    equal = np.searchsorted(unknown, known, side="right") - below
    auroc = float((below + equal / 2).mean() / len(unknown))
    detection = {}
    for rate in rates:
        allowed = int(np.floor(rate * len(unknown)))
        bar = unknown[len(unknown) - 1 - allowed] if allowed < len(unknown) else -np.inf
        detection[rate] = float((np.asarray(known_correct) & (known > bar)).mean())
    return OpenSetResult(detection, auroc, len(known), len(unknown))


def evaluate_against_gallery(
    queries_QD: Floats,
    query_labels_Q: Ints,
    gallery_ND: Floats,
    gallery_labels_N: Ints,
    *,
    similarity: str = "cosine",
    device: torch.device | None = None,
) -> OpenSetResult:
    """Queries against a gallery of other images; unknown are those whose class it does not hold.

    Raises:
        ArgumentError: no known or no unknown query.
    """
    found, similarities = nearest(queries_QD, gallery_ND, 1, similarity=similarity, device=device)
    known = np.isin(query_labels_Q, gallery_labels_N)
    correct = gallery_labels_N[found[:, 0]] == query_labels_Q
    return open_set_figures(similarities[known, 0], correct[known], similarities[~known, 0])


def evaluate_open_set(
    embeddings_ND: Floats,
    labels_N: Ints,
    class_names: Sequence[str] | None = None,
    *,
    similarity: str = "cosine",
    device: torch.device | None = None,
) -> OpenSetResult:
    """Every image as a query against a gallery that holds only half of the classes: the mean of several halves.

    One half says little where there are few classes. Halves come in pairs: each class is known in one and
    unknown in the other. They are chosen by SHA-256 of the class names (of the numbers, without names). An image of
    the gallery never finds itself; a class with a single image counts as unknown.

    Raises:
        ArgumentError: fewer than four classes, or no class of a gallery with two images.
    """
    present, counts = np.unique(labels_N, return_counts=True)
    if len(present) < 4:
        raise ArgumentError(f"open-set figures need at least 4 classes; got {len(present)}")
    enough = set(present[counts > 1].tolist())
    results = []
    for pair in range(PAIRS if len(labels_N) <= MANY else 1):
        order = sorted(
            present.tolist(),
            key=lambda c: hash_text(f"{pair} {c if class_names is None else class_names[c]}"),
        )
        half = len(order) // 2
        for held in (order[:half], order[half:]):
            enrolled = [c for c in held if c in enough]
            if enrolled:
                results.append(
                    _with_gallery_of(
                        np.array(enrolled), embeddings_ND, labels_N, similarity=similarity, device=device
                    )
                )
    if not results:
        raise ArgumentError("open-set figures need a class with two images in the gallery")
    return OpenSetResult(
        {rate: float(np.mean([one.detection_rates[rate] for one in results])) for rate in FALSE_MATCH_RATES},
        float(np.mean([one.auroc for one in results])),
        round(np.mean([one.known for one in results])),
        round(np.mean([one.unknown for one in results])),
    )


def _with_gallery_of(
    enrolled: Ints,
    embeddings_ND: Floats,
    labels_N: Ints,
    *,
    similarity: str,
    device: torch.device | None,
) -> OpenSetResult:
    """The figures of all images where the gallery holds the `enrolled` classes."""
    is_known = np.isin(labels_N, enrolled)
    gallery = np.flatnonzero(is_known)
    own = np.full(len(labels_N), -1, dtype=np.int64)
    own[gallery] = np.arange(len(gallery))
    found, similarities = nearest(
        embeddings_ND, embeddings_ND[gallery], 1, self_index=own, similarity=similarity, device=device
    )
    correct = labels_N[gallery[found[:, 0]]] == labels_N
    return open_set_figures(similarities[is_known, 0], correct[is_known], similarities[~is_known, 0])
