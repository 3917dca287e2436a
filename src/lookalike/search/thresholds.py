"""The similarity from which on two images count as the same class, chosen on classes that were not trained on.

All pairs of a set of labeled images are counted by similarity, separately for each class of the first image:
pairs of the same class, and pairs of different classes. From the counts follow, for any threshold t,

    recall(t)            = same-class pairs at or above t / all same-class pairs
    false match rate(t)  = different-class pairs at or above t / all different-class pairs
    precision(t)         = same-class pairs at or above t / all pairs at or above t

and the threshold is the lowest that reaches the wanted precision or false match rate, or the highest that
reaches the wanted recall. Its interval comes from resampling the classes. Precision depends on how many
classes there are and how large they are; recall and false match rate do not.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lookalike.errors import ArgumentError
from lookalike.utils.validation import check_choice

BINS, RESAMPLES = 4000, 1000
LEAST_CLASSES = 5
"""Of fewer classes, resampling says nothing: nearly every sample holds the same ones."""
TARGETS = ("precision", "false_match_rate", "recall")
_BLOCK = 1024

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class PairCounts:
    """Pairs by similarity: bin b holds similarities from edge b on, (C, BINS) for each of C classes.

    Attributes:
        same, different: of pairs whose first image is of the class.
    """

    same: Ints
    different: Ints

    @staticmethod
    def edges() -> Doubles:
        """The lower edge of each bin."""
        return np.linspace(-1, 1, BINS + 1)[:-1]


@dataclass(frozen=True)
class Threshold:
    """A calibrated threshold.

    Attributes:
        similarity: two images at least this similar count as the same class.
        low, high: interval of the threshold at `confidence` when classes are resampled; None below `LEAST_CLASSES`.
        target, wanted: what it was chosen for, one of `TARGETS` and its value.
        precision, recall, false_match_rate: at the threshold, on the calibration images.
        images, classes: how many it was chosen on.
        data: name of the images, for people.
    """

    similarity: float
    low: float | None
    high: float | None
    target: str
    wanted: float
    precision: float
    recall: float
    false_match_rate: float
    images: int
    classes: int
    data: str = ""
    confidence: float = 0.95

    def __str__(self) -> str:
        rates = f"precision {100 * self.precision:.1f} %, recall {100 * self.recall:.1f} %"
        interval = f"from {self.classes} classes, too few for an interval"
        if self.low is not None and self.high is not None:
            interval = (
                f"between {self.low:.3f} and {self.high:.3f} with {100 * self.confidence:.0f} % confidence, over "
                f"{self.classes} classes"
            )
        return (
            f"threshold {self.similarity:.3f} ({interval}): {rates}, false match rate "
            f"{100 * self.false_match_rate:.2f} %"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def count_pairs(embeddings_ND: Floats, labels_N: Ints, *, block: int = _BLOCK) -> PairCounts:
    """Counts all ordered pairs of different images by their cosine similarity.

    Args:
        embeddings_ND: of any length, none zero.
        labels_N: classes 0..C-1.
        block: rows compared at a time; any size gives the same counts.

    Raises:
        ArgumentError: fewer than two classes, or no class with two images.
    """
    counts = np.bincount(labels_N)
    if (counts > 0).sum() < 2 or counts.max(initial=0) < 2:
        raise ArgumentError(
            "a threshold needs at least two classes, and one of them with two images; give more held-out images"
        )
    units = torch.nn.functional.normalize(
        torch.from_numpy(np.ascontiguousarray(embeddings_ND)).float(), dim=1
    )
    labels = torch.from_numpy(np.array(labels_N))
    classes = len(counts)
    same = np.zeros((classes, BINS), np.int64)
    every = np.zeros((classes, BINS), np.int64)
    for start in range(0, len(units), block):
        mine = labels[start : start + block]
        sims = (units[start : start + block] @ units.T).double()
        bins = ((sims + 1) * (BINS / 2)).long().clamp_(0, BINS - 1)
        own = torch.arange(len(mine))
        keep = torch.ones_like(bins, dtype=torch.bool)
        keep[own, own + start] = False
        flat = mine[:, None] * BINS + bins
        for into, chosen in ((every, keep), (same, keep & (mine[:, None] == labels[None]))):
            into += torch.bincount(flat[chosen], minlength=classes * BINS).reshape(classes, BINS).numpy()
    present = counts > 0
    return PairCounts(same[present], (every - same)[present])


def check_target(target: str, wanted: float) -> None:
    """Refuses a target that is not of `TARGETS`, and a value outside 0..1."""
    check_choice("target", target, TARGETS)
    if not 0 < wanted < 1:
        raise ArgumentError(
            f"the wanted {target.replace('_', ' ')} is {wanted:g}; it must lie between 0 and 1, such as 0.95"
        )


def choose_threshold(
    counts: PairCounts,
    *,
    target: str = "precision",
    wanted: float = 0.95,
    images: int = 0,
    data: str = "",
) -> Threshold:
    """The threshold for a wanted precision, false match rate or recall, with its interval over classes.

    Raises:
        ArgumentError: an unknown target, a value outside 0..1, or a precision that no threshold reaches.
    """
    check_target(target, wanted)
    same, different = counts.same.sum(axis=0), counts.different.sum(axis=0)
    at = _bin(same, different, target, wanted)
    if at is None:
        best = float(np.nanmax(_rates(same, different)[0]))
        raise ArgumentError(
            f"no threshold reaches a precision of {wanted:g} on these images; the best is {best:.3f}; ask for less "
            f"(--precision {0.98 * best:.2f}), or choose by a false-match rate (--false-match-rate 0.01)"
        )
    precision, recall, false_match_rate = (float(rate[at]) for rate in _rates(same, different))
    low, high = _interval(counts, target, wanted)
    edges = PairCounts.edges()
    return Threshold(
        float(edges[at]),
        low,
        high,
        target,
        wanted,
        precision,
        recall,
        false_match_rate,
        images,
        len(counts.same),
        data,
    )


def _rates(same: NDArray[Any], different: NDArray[Any]) -> tuple[Doubles, Doubles, Doubles]:
    """Precision, recall and false match rate for the lower edge of each bin as threshold."""
    matched, mistaken = (
        np.cumsum(part[..., ::-1], axis=-1)[..., ::-1].astype(np.float64) for part in (same, different)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        return matched / (matched + mistaken), matched / matched[..., :1], mistaken / mistaken[..., :1]


def _bin(same: NDArray[Any], different: NDArray[Any], target: str, wanted: float) -> int | None:
    precision, recall, false_match_rate = _rates(same, different)
    if target == "recall":
        return int(np.flatnonzero(recall >= wanted)[-1])
    good = precision >= wanted if target == "precision" else false_match_rate <= wanted
    found = np.flatnonzero(good)
    return int(found[0]) if len(found) else None


def _interval(counts: PairCounts, target: str, wanted: float) -> tuple[float, float] | tuple[None, None]:
    """2.5 and 97.5 percentiles of the threshold when classes are drawn with replacement."""
    classes, edges = len(counts.same), PairCounts.edges()
    if classes < LEAST_CLASSES:
        return None, None
    draws = np.random.default_rng(0)
    found = []
    for _ in range(RESAMPLES):
        times = np.bincount(draws.integers(0, classes, classes), minlength=classes)
        same, different = times @ counts.same, times @ counts.different
        if same.sum() == 0 or different.sum() == 0:
            continue
        at = _bin(same, different, target, wanted)
        found.append(1.0 if at is None else float(edges[at]))
    if not found:
        return None, None
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)
