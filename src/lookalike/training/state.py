"""The state of a training run at the end of an epoch."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass
class TrainingState:
    """Everything that a resumed run needs, at the end of an epoch; `to_tree` and `from_tree` are inverse."""

    epoch: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    best_metric: float = -1.0
    best_model: dict[str, Tensor] = field(default_factory=dict)
    model: dict[str, Tensor] = field(default_factory=dict)
    loss: dict[str, Tensor] = field(default_factory=dict)
    optimizers: list[dict[str, Any]] = field(default_factory=list)

    def to_tree(self) -> dict[str, Any]:
        """A tree for `save_tree`."""
        return dict(vars(self))

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> "TrainingState":
        """The state that `to_tree` described."""
        return cls(**tree)

    def values(self, metric: str) -> list[float]:
        """One validation metric over the trained epochs."""
        return [record["validation"][metric] for record in self.history if record["epoch"] > 0]
