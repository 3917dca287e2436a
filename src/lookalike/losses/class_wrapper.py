"""Losses that train a base loss over other classes than its own: some of them, or more."""

from abc import abstractmethod

import torch
from torch import Generator, Tensor

from lookalike.errors import ArgumentError
from lookalike.losses.base import MetricLoss, ProxyLoss
from lookalike.losses.build import Base, build_base
from lookalike.losses.chunked import ChunkedProxyLoss


def chunked_base(
    base: Base, num_classes: int, embedding_dim: int, generator: Generator | None = None
) -> ChunkedProxyLoss:
    """The base loss of a wrapper over classes; see `build_base`.

    Raises:
        ArgumentError: it has no chunked form, or is a ready loss of other sizes.
    """
    loss = build_base(base, num_classes, embedding_dim, generator)
    if not isinstance(loss, ChunkedProxyLoss):
        raise ArgumentError(
            f"base {type(loss).__name__} cannot be computed over some of the classes; "
            "use a softmax loss, ProxyAnchor or SoftTriple"
        )
    return loss


class ClassWrapper(MetricLoss):
    """A base loss over classes that a subclass chooses for each step; over its own in evaluation mode.

    Args:
        base: Proxy-Anchor, SoftTriple or a softmax loss: a name, {"name": ..., "settings": {...}}, or ready.
        seed: decides, with the number of the step, what is drawn; the same in each process.
        generator: source of the proxies' random start.
    """

    def __init__(
        self, num_classes: int, embedding_dim: int, *, base: Base, seed: int, generator: Generator | None
    ) -> None:
        super().__init__(num_classes, embedding_dim)
        self.base = chunked_base(base, num_classes, embedding_dim, generator)
        self.seed = seed
        self.iteration = 0

    @property
    def proxy_loss(self) -> ProxyLoss:
        """The base loss, with the proxies of all classes."""
        return self.base

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        labels = self.checked(embeddings, labels)
        if not self.training:
            return self.base.forward_checked(embeddings, labels)
        value = self.training_loss(embeddings, labels, self.iteration)
        self.iteration += 1
        return value

    @abstractmethod
    def training_loss(self, embeddings: Tensor, labels: Tensor, iteration: int) -> Tensor:
        """The loss of the step number `iteration`, from 0."""

    def get_extra_state(self) -> Tensor:
        """The number of steps, so that a resumed run draws what it would have drawn."""
        return torch.tensor(self.iteration)

    def set_extra_state(self, state: Tensor) -> None:
        self.iteration = int(state)
