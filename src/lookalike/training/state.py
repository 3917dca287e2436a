"""The state of a training stage at the end of an epoch, and how it is saved and loaded."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from lookalike.losses import MetricLoss
from lookalike.losses.sharded import Sharded
from lookalike.training.sharded_state import load_sharded, save_sharded
from lookalike.training.tensor_tree import load_tree, save_tree
from lookalike.utils.distributed import Processes


@dataclass
class TrainingState:
    """Everything that a resumed run needs."""

    epoch: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    best_metric: float = -1.0
    best_model: dict[str, Tensor] = field(default_factory=dict)
    model: dict[str, Tensor] = field(default_factory=dict)
    loss: dict[str, Tensor] = field(default_factory=dict)
    optimizers: list[dict[str, Any]] = field(default_factory=list)
    scaler: dict[str, Any] = field(default_factory=dict)

    def values(self, metric: str) -> list[float]:
        """One validation metric over the trained epochs."""
        return [record["validation"][metric] for record in self.history if record["epoch"] > 0]


def save_state(path: Path, state: TrainingState, loss: MetricLoss) -> None:
    """Saves the state as files that begin with `path`; every process calls it, and the main one writes.

    With sharded proxies each process writes its own rows; see `lookalike.training.sharded_state`.
    """
    if isinstance(loss, Sharded):
        save_sharded(path, dict(vars(state)), loss, name=f"epoch-{state.epoch}")
    elif Processes.all().rank == 0:
        save_tree(path, dict(vars(state)))


def load_state(path: Path, loss: MetricLoss) -> TrainingState | None:
    """The saved state, or None if nothing was saved yet.

    Raises:
        FileError: the state is damaged.
    """
    if not path.with_suffix(".json").exists():
        return None
    tree = load_sharded(path, loss) if isinstance(loss, Sharded) else load_tree(path)
    return TrainingState(**tree)


def clone_state(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A state_dict whose tensors no longer share memory with the module."""
    return {key: value.detach().clone() for key, value in state.items()}
