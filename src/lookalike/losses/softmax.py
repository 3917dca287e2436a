"""The softmax losses' common formula: cross-entropy of logits that are functions of similarities.

    mean_i [log sum_c exp(z_ic) - sum_c q_ic z_ic]

z are logits, q the target distribution: 1 for the class of the sample, or 1-e for it and e/(C-1) for each
other class with label smoothing e.

Shapes: B batch, K classes of a chunk (C when it holds all), Q = K*N proxies of it.
"""

from abc import abstractmethod

import torch
from torch import Tensor

from lookalike.losses.chunked import ChunkedProxyLoss
from lookalike.losses.kernels.chunks import Chunk


def log_sums(logits_BK: Tensor, chunk: Chunk, *, include_positive: bool = True) -> Tensor:
    """log sum_c w_c exp(z_ic) (B,) over the classes of a chunk, the sample's own class included or not."""
    return _counted(logits_BK, chunk, include_positive).logsumexp(dim=1)


def _counted(logits_BK: Tensor, chunk: Chunk, include_positive: bool) -> Tensor:
    """Logits plus the logarithms of their weights in the sum."""
    if chunk.weights_K is not None:
        logits_BK = logits_BK + chunk.weights_K.log()
    return logits_BK if include_positive else chunk.with_target(logits_BK, -torch.inf)


def target_term(logits_BK: Tensor, chunk: Chunk, *, label_smoothing: float = 0.0) -> Tensor:
    """-mean_i sum_c q_ic z_ic over the classes of a chunk."""
    target = chunk.target(logits_BK).sum() / len(logits_BK)
    if label_smoothing == 0:
        return -target
    weighted_BK = logits_BK if chunk.weights_K is None else logits_BK * chunk.weights_K
    others = (weighted_BK.sum() / len(logits_BK) - target) / (chunk.num_classes - 1)
    return -((1 - label_smoothing) * target + label_smoothing * others)


def cross_entropy(
    logits_BC: Tensor, chunk: Chunk, *, include_positive: bool = True, label_smoothing: float = 0.0
) -> Tensor:
    """The formula above, of the chunk of all classes."""
    sums_B = log_sums(logits_BC, chunk, include_positive=include_positive)
    return sums_B.mean() + target_term(logits_BC, chunk, label_smoothing=label_smoothing)


def cross_entropy_gradient_(
    logits_BK: Tensor,
    chunk: Chunk,
    log_sums_B: Tensor,
    *,
    include_positive: bool = True,
    label_smoothing: float = 0.0,
) -> Tensor:
    """The gradient by the logits of a chunk, (p - q) / B with p the softmax, in place of the logits."""
    batch = len(logits_BK)
    gradient_BK = _counted(logits_BK, chunk, include_positive).sub_(log_sums_B[:, None]).exp_().div_(batch)
    if label_smoothing == 0:
        return chunk.add_to_target_(gradient_BK, -1 / batch)
    smoothed = label_smoothing / (chunk.num_classes - 1) / batch
    gradient_BK -= smoothed if chunk.weights_K is None else smoothed * chunk.weights_K
    return chunk.add_to_target_(gradient_BK, smoothed - (1 - label_smoothing) / batch)


class SoftmaxProxyLoss(ChunkedProxyLoss):
    """A softmax loss; subclasses say what their logits are, in a new tensor that autograd does not save."""

    include_positive: bool = True
    label_smoothing: float = 0.0

    @abstractmethod
    def logits(self, sims_BQ: Tensor, chunk: Chunk) -> Tensor:
        """The logits (B, K) of the classes of a chunk."""

    def loss_from_similarities(self, similarities: Tensor, labels: Tensor) -> Tensor:
        chunk = Chunk.whole(labels, self.num_classes)
        value = cross_entropy(
            self.logits(similarities, chunk),
            chunk,
            include_positive=self.include_positive,
            label_smoothing=self.label_smoothing,
        )
        own_term = self.proxy_term(self.proxies, chunk)
        return value if own_term is None else value + own_term

    def log_sums(self, sims_BQ: Tensor, chunk: Chunk) -> Tensor:
        return log_sums(self.logits(sims_BQ, chunk), chunk, include_positive=self.include_positive)

    def chunk_value_and_gradient(
        self, sims_BQ: Tensor, chunk: Chunk, log_sums_B: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        assert log_sums_B is not None
        with torch.enable_grad():
            sims_BQ = sims_BQ.detach().requires_grad_()
            logits_BK = self.logits(sims_BQ, chunk)
        value = target_term(logits_BK.detach(), chunk, label_smoothing=self.label_smoothing)
        to_logits_BK = cross_entropy_gradient_(
            logits_BK.detach(),
            chunk,
            log_sums_B,
            include_positive=self.include_positive,
            label_smoothing=self.label_smoothing,
        )
        return value, torch.autograd.grad(logits_BK, sims_BQ, to_logits_BK)[0]
