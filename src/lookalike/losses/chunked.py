"""Losses that can go through the classes in chunks: when they do, and how several are computed as one.

`losses/large` holds the arithmetic; what a loss adds here is one function of unit embeddings and proxies that
gives its value and both gradients.
"""

from abc import abstractmethod

from torch import Tensor

from lookalike.losses.base import ProxyLoss
from lookalike.losses.kernels.autograd import Compute, loss_with_gradients
from lookalike.losses.kernels.common import WHOLE, Part


class ChunkedProxyLoss(ProxyLoss):
    """A loss with proxies that can go through the classes in chunks, or see only some of them."""

    def forward_checked(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        if self.in_chunks(embeddings):
            return self.chunked(embeddings, self.proxies, labels)
        return super().forward_checked(embeddings, labels)

    def chunked(self, embeddings: Tensor, proxies: Tensor, labels: Tensor, part: Part = WHOLE) -> Tensor:
        """The loss over the classes of `part`, whose proxies are given; the labels are trusted."""
        return loss_with_gradients([self.computation(labels, part)], embeddings, [proxies])

    @abstractmethod
    def computation(self, labels: Tensor, part: Part = WHOLE) -> Compute:
        """What finds value and gradients, given embeddings of length 1 and the proxies of `part`."""
