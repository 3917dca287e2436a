"""Where the Reality Check searched: the settings of each loss and their ranges.

Read from the plots that powerful-benchmarker stores (tag B); ranges marked ours are for losses that it did
not run. The rate of the loss's own weights is searched for every loss that has some.
"""

from dataclasses import dataclass
from typing import Any

from lookalike.errors import UnknownNameError


@dataclass(frozen=True)
class Range:
    """One searched setting.

    Attributes:
        setting: its dotted name.
        low, high: the range, of the number as the Reality Check had it.
        log: searched on a logarithmic scale.
        inverse: our setting is 1 / the number, as a temperature is of a scale.
        source: "B", or "ours".
    """

    setting: str
    low: float
    high: float
    log: bool = False
    inverse: bool = False
    source: str = "B"

    def assignment(self, number: float) -> str:
        """The override that sets it, such as `loss.temperature=0.125`."""
        return f"{self.setting}={(1 / number if self.inverse else number)!r}"


RATE = Range("train.proxy_lr", 1e-6, 1.0, log=True)

RANGES: dict[str, tuple[Range, ...]] = {
    "proxy_nca": (RATE, Range("loss.temperature", 0.01, 100, inverse=True)),
    "norm_softmax": (RATE, Range("loss.temperature", 0.01, 100, log=True)),
    "soft_triple": (
        RATE,
        Range("loss.scale", 0.01, 100),
        Range("loss.gamma", 0.01, 100, inverse=True),  # multiplied there, divided in the paper and here
        Range("loss.center_weight", 0, 1),
        Range("loss.margin", 0, 1),
    ),
    "cos_face": (RATE, Range("loss.margin", 0, 1), Range("loss.scale", 0.01, 200)),
    "margin": (RATE, Range("loss.beta", -0.2, 2), Range("loss.margin", -0.2, 2)),
    "triplet": (Range("loss.margin", -0.2, 2),),
    "contrastive": (Range("loss.positive_margin", -0.2, 2), Range("loss.negative_margin", -0.2, 2)),
    "multi_similarity": (
        Range("loss.alpha", 0.01, 100),
        Range("loss.beta", 0.01, 100),
        Range("loss.base", 0, 1),
        Range("loss.epsilon", 0, 1),
    ),
    "proxy_nca_pp": (RATE, Range("loss.temperature", 0.01, 100, inverse=True, source="ours")),
    "proxy_anchor": (
        RATE,
        Range("loss.scale", 0.01, 100, source="ours"),
        Range("loss.margin", 0, 1, source="ours"),
    ),
    "proxy_gml": (
        RATE,
        Range("loss.neighbor_ratio", 0.01, 1, log=True, source="ours"),
        Range("loss.regularizer_weight", 0, 1, source="ours"),
    ),
}


def ranges_of(loss: str) -> tuple[Range, ...]:
    """The ranges to search for a loss.

    Raises:
        UnknownNameError: nobody said where to search.
    """
    if loss not in RANGES:
        raise UnknownNameError(
            f"protocol folds has no search ranges for the loss '{loss}' (it has: {', '.join(RANGES)}); "
            "run it with another protocol"
        )
    return RANGES[loss]


def drawn(trial: Any, ranges: tuple[Range, ...]) -> list[str]:
    """Overrides with numbers that an Optuna trial suggests."""
    return [r.assignment(trial.suggest_float(r.setting, r.low, r.high, log=r.log)) for r in ranges]
