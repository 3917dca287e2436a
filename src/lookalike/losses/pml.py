"""Losses of pytorch-metric-learning in our training, and ours in its loops and trainers.

The package loads scipy (65 MB in all), so it is imported when the first such loss is built.
"""

import importlib
from typing import Any

import torch
from torch import Tensor, nn

from lookalike.errors import ArgumentError
from lookalike.losses.base import MetricLoss
from lookalike.losses.functional import full_precision, unit_rows


def pml(module: str) -> Any:
    """`pytorch_metric_learning.<module>`, imported now."""
    return importlib.import_module(f"pytorch_metric_learning.{module}")


class PMLLoss(MetricLoss):
    """A loss of pytorch-metric-learning on the pairs or triplets that its miner finds.

    Args:
        loss: called with embeddings, labels and the miner's indices; its parameters become ours.
        miner: finds the pairs or triplets; None leaves it to the loss.
        normalized: pass unit vectors, or the embeddings as they are; in float32 or better either way.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        loss: nn.Module,
        miner: nn.Module | None = None,
        normalized: bool = True,
    ) -> None:
        super().__init__(num_classes, embedding_dim)
        self.loss = loss
        self.miner = miner
        self.normalized = normalized

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        labels = self.checked(embeddings, labels)
        with full_precision(embeddings):
            if self.normalized:
                embeddings = unit_rows(embeddings)
            else:
                embeddings = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))
            mined = self.miner(embeddings, labels) if self.miner is not None else None
            value: Tensor = self.loss(embeddings, labels, mined)
            return value


class FromPML(PMLLoss):
    """Any loss of pytorch-metric-learning, with or without a miner, as a loss of ours; see `PMLLoss`."""


class AsPML(nn.Module):
    """One of our losses in the shape that loops and trainers of pytorch-metric-learning call.

    Pairs found by a miner are not used: a proxy loss compares every sample with every proxy.
    """

    def __init__(self, loss: MetricLoss) -> None:
        super().__init__()
        self.loss = loss

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        indices_tuple: object = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> Tensor:
        if ref_emb is not None or ref_labels is not None:
            raise ArgumentError(
                "ref_emb and ref_labels are given; a proxy loss compares with its proxies only"
            )
        value: Tensor = self.loss(embeddings, labels)
        return value
