"""Any loss of pytorch-metric-learning by the name of its class, with its miner and arguments, as a setting."""

import inspect
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from lookalike.errors import ArgumentError
from lookalike.losses.pml import PMLLoss, pml
from lookalike.utils.validation import look_up


def _public(module: str) -> dict[str, Any]:
    """The classes of a module of the package, by name."""
    return {name: entry for name, entry in vars(pml(module)).items() if inspect.isclass(entry)}


def _made(kind: Any, arguments: Mapping[str, Any], known: Mapping[str, int], what: str) -> Any:
    """An instance, given the sizes that its class asks for.

    Raises:
        ArgumentError: arguments that the class does not take.
    """
    names = inspect.signature(kind).parameters
    sizes = {name: value for name, value in known.items() if name in names}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations inside the package
            return kind(**{**sizes, **arguments})
    except (TypeError, ValueError, AssertionError) as error:
        raise ArgumentError(
            f"loss.{what}: {kind.__name__} cannot be built with {dict(arguments)}: {error}"
        ) from error


class NamedPML(PMLLoss):
    """A loss of pytorch-metric-learning: AngularLoss, CircleLoss, HistogramLoss, SmoothAPLoss and all others.

    Args:
        loss_class: a class of `pytorch_metric_learning.losses`; it gets num_classes and embedding_size where it
            takes them.
        loss_arguments: its other arguments.
        miner_class: a class of `pytorch_metric_learning.miners`; None leaves pairs to the loss.
        miner_arguments: its arguments.
        normalized: pass unit vectors, or the embeddings as they are.
    """

    paper = "Musgrave, Belongie and Lim, PyTorch Metric Learning, 2020; each loss has its own"
    toy_arguments: ClassVar[dict[str, Any]] = {"loss_class": "NTXentLoss"}

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        loss_class: str,
        loss_arguments: Mapping[str, Any] | None = None,
        miner_class: str | None = None,
        miner_arguments: Mapping[str, Any] | None = None,
        normalized: bool = True,
    ) -> None:
        known = {"num_classes": num_classes, "embedding_size": embedding_dim}
        kind = look_up(_public("losses"), loss_class, "loss of pytorch-metric-learning")
        loss = _made(kind, loss_arguments or {}, known, "loss_arguments")
        miner = None
        if miner_class is not None:
            kind = look_up(_public("miners"), miner_class, "miner of pytorch-metric-learning")
            miner = _made(kind, miner_arguments or {}, known, "miner_arguments")
        elif miner_arguments:
            raise ArgumentError("loss.miner_arguments is set, but no loss.miner_class; name the miner")
        super().__init__(num_classes, embedding_dim, loss=loss, miner=miner, normalized=normalized)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations inside the package
            return super().forward(embeddings, labels)
