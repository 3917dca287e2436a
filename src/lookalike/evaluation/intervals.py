"""Confidence intervals over classes and over seeds, and the paired difference of two results.

Queries of one class are not independent, so the bootstrap resamples classes, not queries.
"""

from dataclasses import dataclass

import numpy as np

from lookalike.errors import ArgumentError
from lookalike.evaluation.ranks import Floats, Integers
from lookalike.utils.validation import check_at_least

_BATCH = 1 << 22  # numbers resampled at a time


@dataclass(frozen=True)
class Interval:
    """A mean with its interval at `confidence`, from `n` classes or seeds; NaN where n is 1."""

    mean: float
    low: float
    high: float
    n: int
    confidence: float = 0.95


def bootstrap_over_classes(
    values: Floats,
    labels: Integers,
    *,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Percentile interval of the mean over queries when classes are resampled with replacement.

    Args:
        values: (Q,) one value per query; NaN (queries without a match) are left out.
        labels: (Q,) class of each query.
        resamples: number of bootstrap samples.
        seed: of the resampling.

    Raises:
        ArgumentError: no value, or a confidence outside 0..1.
    """
    from scipy.stats import bootstrap

    if not 0 < confidence < 1:
        raise ArgumentError(f"confidence is {confidence}; it must lie between 0 and 1, such as 0.95")
    check_at_least("resamples", resamples, 1)
    total, size = _sums_by_class(values, labels)
    mean, classes = float(total.sum() / size.sum()), len(size)
    if classes == 1:
        return Interval(mean, float("nan"), float("nan"), 1, confidence)
    low, high = bootstrap(
        (total, size),
        lambda sums, sizes, axis: sums.sum(axis=axis) / sizes.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, _BATCH // classes),
        confidence_level=confidence,
        method="percentile",
        rng=seed,
    ).confidence_interval
    return Interval(mean, float(low), float(high), classes, confidence)


def student_interval(values: list[float] | Floats, *, confidence: float = 0.95) -> Interval:
    """Mean of runs that differ in their seed, or of classes, and Student's interval: mean +- t(n - 1) s / sqrt(n)."""
    from scipy.stats import t

    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or len(numbers) == 0 or not np.isfinite(numbers).all():
        raise ArgumentError("values must be a list of at least one finite number, one per seed")
    mean = float(numbers.mean())
    if len(numbers) == 1:
        return Interval(mean, float("nan"), float("nan"), 1, confidence)
    quantile = t.ppf((1 + confidence) / 2, len(numbers) - 1)
    half = float(quantile * numbers.std(ddof=1) / len(numbers) ** 0.5)
    return Interval(mean, mean - half, mean + half, len(numbers), confidence)


@dataclass(frozen=True)
class Difference:
    """Second minus first on the same queries.

    Attributes:
        metric: result key.
        first, second: the two means.
        difference: the mean difference with its bootstrap interval over classes.
        better, worse, same: queries on which the second is better, worse, the same.
        p_value: two-sided permutation test that flips the sign of whole classes.
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
    first: Floats,
    second: Floats,
    labels: Integers,
    *,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Difference:
    """Compares two models query by query, one value per query; NaN in either leaves the query out."""
    from scipy.stats import permutation_test

    gain = second - first
    known = ~np.isnan(gain)
    interval = bootstrap_over_classes(gain, labels, resamples=resamples, confidence=confidence, seed=seed)
    total, _ = _sums_by_class(gain, labels)
    test = permutation_test(
        (total,),
        lambda sums, axis: sums.sum(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, _BATCH // len(total)),
        rng=seed + 1,
    )
    return Difference(
        metric,
        float(first[known].mean()),
        float(second[known].mean()),
        interval,
        int((gain[known] > 0).sum()),
        int((gain[known] < 0).sum()),
        int((gain[known] == 0).sum()),
        float(test.pvalue),
    )


def gain_over_classes(first: Floats, second: Floats, labels: Integers, *, confidence: float) -> Interval:
    """The mean over classes of what the second model gains, with Student's interval, which holds for few classes too.

    Args:
        first, second: (Q,) one value per query; NaN in either leaves the query out.
        labels: (Q,) class of each query.
    """
    total, size = _sums_by_class(second - first, labels)
    return student_interval(total / size, confidence=confidence)


def _sums_by_class(values: Floats, labels: Integers) -> tuple[Floats, Floats]:
    """Sum and number of the values of each class."""
    known = ~np.isnan(values)
    if not known.any():
        raise ArgumentError("no query has a value, so there is no interval; give queries with a match")
    _, inverse = np.unique(labels[known], return_inverse=True)
    total = np.bincount(inverse, weights=values[known]).astype(np.float64)
    return total, np.bincount(inverse).astype(np.float64)
