"""How sure a number is: intervals over classes, over seeds, and of the difference of two results.

Queries of one class rise and fall together, so classes, not queries, are drawn anew in the bootstrap.
"""

from dataclasses import dataclass

import numpy as np

from lookalike.errors import ArgumentError
from lookalike.utils.validation import check_at_least


@dataclass(frozen=True)
class Interval:
    """A mean with its interval at `confidence`, from `n` classes or seeds."""

    mean: float
    low: float
    high: float
    n: int
    confidence: float = 0.95


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ArgumentError(f"confidence is {confidence}; it must lie between 0 and 1, such as 0.95")


def bootstrap_over_classes(
    values: np.ndarray,
    labels: np.ndarray,
    *,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Percentile interval of the mean over queries when the classes are drawn anew, with replacement.

    Args:
        values: (Q,) one value a query; NaN (lone queries) are left out.
        labels: (Q,) class of each query.
        resamples: draws. seed: of the draws.

    Raises:
        ArgumentError: no value, or a confidence outside 0..1.
    """
    _check_confidence(confidence)
    check_at_least("resamples", resamples, 1)
    total, size = _by_class(values, labels)
    draws = _resampled(total, size, resamples, seed)
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(total.sum() / size.sum()), float(low), float(high), len(size), confidence)


def _by_class(values: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum and number of the values of each class."""
    known = ~np.isnan(values)
    if not known.any():
        raise ArgumentError("no query has a value; there is nothing to give an interval of")
    _, inverse = np.unique(labels[known], return_inverse=True)
    return np.bincount(inverse, weights=values[known]), np.bincount(inverse).astype(np.float64)


def _resampled(total: np.ndarray, size: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    out = np.empty(resamples)
    for at in range(resamples):
        drawn = generator.integers(0, len(size), len(size))
        out[at] = total[drawn].sum() / size[drawn].sum()
    return out


def student_interval(values: list[float] | np.ndarray, *, confidence: float = 0.95) -> Interval:
    """Mean of runs that differ in their seed, and Student's interval: mean +- t(n - 1) s / sqrt(n).

    With one value the interval is unknown: low and high are NaN.
    """
    from scipy.stats import t

    _check_confidence(confidence)
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or len(numbers) == 0 or not np.isfinite(numbers).all():
        raise ArgumentError("values must be a list of at least one finite number, one for each seed")
    mean = float(numbers.mean())
    if len(numbers) == 1:
        return Interval(mean, float("nan"), float("nan"), 1, confidence)
    half = float(t.ppf((1 + confidence) / 2, len(numbers) - 1) * numbers.std(ddof=1) / len(numbers) ** 0.5)
    return Interval(mean, mean - half, mean + half, len(numbers), confidence)


@dataclass(frozen=True)
class Difference:
    """Second minus first on the same queries.

    Attributes:
        metric: which.
        first, second: the two means.
        difference: interval of the mean difference, classes drawn anew.
        better, worse, same: queries on which the second is better, worse, the same.
        p_value: two-sided, by flipping the sign of whole classes: how often chance alone would give a mean
            difference at least as large.
    """

    metric: str
    first: float
    second: float
    difference: Interval
    better: int
    worse: int
    same: int
    p_value: float


def paired_difference(
    metric: str,
    first: np.ndarray,
    second: np.ndarray,
    labels: np.ndarray,
    *,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Difference:
    """Compares one value a query of two models, query by query; NaN where either has none is left out."""
    gain = second - first
    known = ~np.isnan(gain)
    interval = bootstrap_over_classes(gain, labels, resamples=resamples, confidence=confidence, seed=seed)
    total, _ = _by_class(gain, labels)
    generator = np.random.default_rng(seed + 1)
    observed = abs(total.sum()) - 1e-12 * np.abs(total).sum()
    as_large = 0
    for _ in range(resamples):
        signs = generator.integers(0, 2, len(total)) * 2 - 1
        as_large += int(abs((signs * total).sum()) >= observed)
    return Difference(
        metric,
        float(first[known].mean()),
        float(second[known].mean()),
        interval,
        int((gain[known] > 0).sum()),
        int((gain[known] < 0).sum()),
        int((gain[known] == 0).sum()),
        (as_large + 1) / (resamples + 1),
    )
