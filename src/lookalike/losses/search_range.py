"""Ranges in which the arguments of a loss are searched."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchRange:
    """One searched argument of a loss.

    Attributes:
        name: of the argument.
        low, high: ends of the range.
        log: whether it is searched on a logarithmic scale.
        inverse: whether the argument is 1 / the searched number, as a temperature is of a scale.
        source: "Reality Check" for the ranges that powerful-benchmarker's stored plots show (Musgrave et al.,
            "A Metric Learning Reality Check", ECCV 2020), "ours" for losses that it did not run.
    """

    name: str
    low: float
    high: float
    log: bool = False
    inverse: bool = False
    source: str = "Reality Check"

    def argument(self, number: float) -> float:
        """The argument for a searched number."""
        return 1 / number if self.inverse else number
