"""Proxy losses that can be computed in chunks of classes, or over some of the classes."""

from abc import abstractmethod

from torch import Tensor

from lookalike.losses.base import ProxyLoss
from lookalike.losses.kernels.autograd import ValueAndGradients, loss_with_gradients
from lookalike.losses.kernels.chunks import WHOLE, Chunk, Part
from lookalike.losses.kernels.over_classes import over_classes


class ChunkedProxyLoss(ProxyLoss):
    """A proxy loss that is a sum over classes, given at most the log-sum-exp over all classes.

    A subclass writes its formula for a `Chunk` of classes; the dense form is the chunk of all classes.
    """

    def forward_checked(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        if self.in_chunks(embeddings):
            return self.chunked(embeddings, self.proxies, labels)
        value = super().forward_checked(embeddings, labels)
        own_term = self.proxy_term(self.proxies, Chunk.whole(labels, self.num_classes))
        return value if own_term is None else value + own_term

    def chunked(self, embeddings: Tensor, proxies: Tensor, labels: Tensor, part: Part = WHOLE) -> Tensor:
        """The loss over the classes of `part`, whose proxies are given; labels are not checked."""

        def compute(
            unit_BD: Tensor, proxies_PD: Tensor, want_unit: bool, want_proxies: bool
        ) -> ValueAndGradients:
            return over_classes(self, unit_BD, proxies_PD, labels, part, want_unit, want_proxies)

        return loss_with_gradients(compute, embeddings, proxies)

    def log_sums(self, sims_BQ: Tensor, chunk: Chunk) -> Tensor | None:
        """The log-sum-exp (B,) over the classes of a chunk; None for a loss without one."""
        return None

    @abstractmethod
    def chunk_value_and_gradient(
        self, sims_BQ: Tensor, chunk: Chunk, log_sums_B: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """What a chunk adds to the loss less the mean of `log_sums_B`, and the gradient by its similarities."""

    def proxy_term(self, proxies_QD: Tensor, chunk: Chunk) -> Tensor | None:
        """What the proxies of a chunk add to the loss on their own, in either form; None for nothing."""
        return None
