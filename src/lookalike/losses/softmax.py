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


class SoftmaxProxyLoss(ChunkedProxyLoss):
    """A softmax loss, whose logits are `logit_scale` times `class_similarities`.

    The chunked form writes into the matrices it has: on a CPU a new one costs as much as an exponential of all its
    entries.
    """

    include_positive: bool = True
    label_smoothing: float = 0.0

    @property
    @abstractmethod
    def logit_scale(self) -> float:
        """Factor of the logits."""

    def class_similarities(self, sims_BQ: Tensor, chunk: Chunk) -> Tensor:
        """What the logits are multiples of, for the classes of a chunk (B, K): here the similarities themselves."""
        return sims_BQ

    def loss_from_similarities(self, similarities: Tensor, labels: Tensor) -> Tensor:
        chunk = Chunk.whole(labels, self.num_classes)
        logits_BC = self.class_similarities(similarities, chunk) * self.logit_scale
        return self._counted(logits_BC, chunk).logsumexp(dim=1).mean() + self._target_term(logits_BC, chunk)

    def log_sums(self, sims_BQ: Tensor, chunk: Chunk) -> Tensor:
        logits_BK = self._counted(self.class_similarities(sims_BQ, chunk) * self.logit_scale, chunk)
        largest_B = logits_BK.amax(dim=1)
        shift_B = largest_B.masked_fill(largest_B.isinf(), 0)
        return logits_BK.sub_(shift_B[:, None]).exp_().sum(dim=1).log_().add_(shift_B)

    def chunk_value_and_gradient(
        self, sims_BQ: Tensor, chunk: Chunk, log_sums_B: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        assert log_sums_B is not None
        with torch.enable_grad():
            sims_BQ = sims_BQ.detach().requires_grad_()
            class_sims_BK = self.class_similarities(sims_BQ, chunk)
        logits_BK = class_sims_BK.detach() * self.logit_scale
        value = self._target_term(logits_BK, chunk)
        gradient_BK = self._residuals_(logits_BK, chunk, log_sums_B).mul_(self.logit_scale / len(sims_BQ))
        if class_sims_BK is sims_BQ:
            return value, gradient_BK
        return value, torch.autograd.grad(class_sims_BK, sims_BQ, gradient_BK)[0]

    def _counted(self, logits_BK: Tensor, chunk: Chunk) -> Tensor:
        """Logits plus the logarithms of their weights in the sum."""
        if chunk.weights_K is not None:
            logits_BK = logits_BK + chunk.weights_K.log()
        return logits_BK if self.include_positive else chunk.with_target(logits_BK, -torch.inf)

    def _target_term(self, logits_BK: Tensor, chunk: Chunk) -> Tensor:
        """-mean_i sum_c q_ic z_ic over the classes of a chunk."""
        target = chunk.target(logits_BK).sum() / len(logits_BK)
        if self.label_smoothing == 0:
            return -target
        weighted_BK = logits_BK if chunk.weights_K is None else logits_BK * chunk.weights_K
        others = (weighted_BK.sum() / len(logits_BK) - target) / (chunk.num_classes - 1)
        return -((1 - self.label_smoothing) * target + self.label_smoothing * others)

    def _residuals_(self, logits_BK: Tensor, chunk: Chunk, log_sums_B: Tensor) -> Tensor:
        """p - q, with p the softmax over all classes, in place of the logits of a chunk."""
        residuals_BK = self._counted(logits_BK, chunk).sub_(log_sums_B[:, None]).exp_()
        if self.label_smoothing == 0:
            return chunk.add_to_target_(residuals_BK, -1.0)
        smoothed = self.label_smoothing / (chunk.num_classes - 1)
        residuals_BK -= smoothed if chunk.weights_K is None else smoothed * chunk.weights_K
        return chunk.add_to_target_(residuals_BK, smoothed - (1 - self.label_smoothing))
