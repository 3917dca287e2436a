"""How many batches gave a loss of pairs nothing to learn from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PairCounts:
    """Counts over the batches that a loss of pairs has seen in training mode.

    Attributes:
        batches: all of them.
        without_positives: batches in which no two samples have the same class.
        without_pairs: batches in which the miner selected nothing, those without positives among them. Late
            in training a miner of hard pairs finds none because there are none left.
    """

    batches: int = 0
    without_positives: int = 0
    without_pairs: int = 0

    def __add__(self, other: "PairCounts") -> "PairCounts":
        return PairCounts(
            self.batches + other.batches,
            self.without_positives + other.without_positives,
            self.without_pairs + other.without_pairs,
        )

    @property
    def warning(self) -> str | None:
        """A line for the person who trains, when batches lack positive pairs; None otherwise."""
        if not self.without_positives:
            return None
        return (
            f"{self.without_positives} of {self.batches} batches have no two images of one class, and a loss "
            "of pairs learns nothing from them; set batch.sampler=balanced"
        )
