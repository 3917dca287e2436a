"""Mean over seeds and its Student interval."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Interval:
    """Mean of n values and its 95 % Student interval; no interval of fewer than two values."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def half(self) -> float | None:
        """Half of the interval's width."""
        return None if self.high is None else self.high - self.mean


def student_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """mean ± t * s / sqrt(n), with s the standard deviation over n - 1 and t Student's for n - 1 degrees."""
    numbers = np.asarray(values, dtype=np.float64)
    mean, count = float(numbers.mean()), len(numbers)
    if count < 2:
        return Interval(mean, None, None, count)
    t = float(stats.t.ppf((1 + confidence) / 2, count - 1))
    half = t * float(numbers.std(ddof=1)) / count**0.5
    return Interval(mean, mean - half, mean + half, count)
