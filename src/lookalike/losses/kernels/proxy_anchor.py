"""Proxy-Anchor in one pass over chunks of classes.

Its sums run over the batch, so each class can be finished on its own: similarities of a chunk, their
exponentials, both gradients, next chunk. Three matrix products in all, and no B x C matrix.

Logits are LOG2_E * scale * cosine here, so that their exponentials are powers of 2.

Letters: see `classes.py`.
"""

import math

import torch
from torch import Tensor

from lookalike.losses.kernels.autograd import Compute
from lookalike.losses.kernels.common import (
    LOG2_E,
    WHOLE,
    OwnEntries,
    OwnProxies,
    Part,
    chunk_classes,
    chunks,
    fits_exponent,
    inverse_lengths,
)


def proxy_anchor_in_chunks(labels_B: Tensor, *, margin: float, scale: float, part: Part = WHOLE) -> Compute:
    """`losses.proxy_anchor.proxy_anchor` of the cosines, without ever holding them all.

    Args:
        part: which classes the proxies are; its weights multiply the classes' negative terms.

    Extra memory: 2 chunk x B matrices.
    """

    def compute(
        unit_BD: Tensor, proxies_CD: Tensor, want_unit: bool, want_proxies: bool
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        to_unit_BD = torch.empty_like(unit_BD) if want_unit else None
        to_proxies_CD = torch.empty_like(proxies_CD) if want_proxies else None
        one_pass = _Pass(unit_BD, proxies_CD, labels_B, part, margin=margin, scale=scale)
        return one_pass.run(to_unit_BD, to_proxies_CD), to_unit_BD, to_proxies_CD

    return compute


class _Pass:
    """One evaluation: what every chunk needs, and the two terms of the loss.

    `run` finds the logits of the own classes first, then `own_weights_B`, the slopes by the own cosines over the
    lengths of the proxies; every chunk reads both.
    """

    own_logits_B: Tensor
    own_weights_B: Tensor

    def __init__(
        self,
        unit_BD: Tensor,
        proxies_CD: Tensor,
        labels_B: Tensor,
        part: Part,
        *,
        margin: float,
        scale: float,
    ) -> None:
        self.unit_BD, self.proxies_CD, self.labels_B, self.part = unit_BD, proxies_CD, labels_B, part
        self.scale, self.offset = scale, scale * margin
        self.total = part.num_classes or len(proxies_CD)
        self.own_entries = OwnEntries(labels_B, part, len(proxies_CD))
        self.safe = fits_exponent(scale * (1 + abs(margin)), len(unit_BD), unit_BD.dtype)

    def run(self, to_unit_BD: Tensor | None, to_proxies_CD: Tensor | None) -> Tensor:
        """The value; fills both gradients."""
        unit_BD, proxies_CD, labels_B, part = self.unit_BD, self.proxies_CD, self.labels_B, self.part
        step = part.chunk or chunk_classes(len(unit_BD), unit_BD.shape[1], 1, unit_BD.device)
        if step >= len(proxies_CD) and part.processes is None:  # one chunk, which has the own cosines too
            logits_CB, inverse_C = self._logits(proxies_CD)
            self.own_logits_B = self.own_entries.of(logits_CB)
            pull, self.own_weights_B = self._pull(inverse_C.index_select(0, labels_B), len(proxies_CD))
            exps_CB = torch.empty_like(logits_CB)
            push = self._push(0, proxies_CD, logits_CB, exps_CB, inverse_C, to_unit_BD, to_proxies_CD)
            return pull + push
        own = OwnProxies.of(unit_BD, proxies_CD, labels_B, proxies_per_class=1, part=part)
        self.own_logits_B = own.sims_BN[:, 0] * (self.scale * LOG2_E)
        seats = len(proxies_CD) if part.processes is None else self.total  # labels are below this
        pull, self.own_weights_B = self._pull(own.inverse_BN[:, 0], seats)
        push = torch.zeros_like(pull)
        buffers = unit_BD.new_empty(2, min(step, len(proxies_CD)), len(unit_BD))
        for first, end in chunks(len(proxies_CD), step):
            logits_QB, exps_QB = buffers[:, : end - first]
            chunk_QD = proxies_CD[first:end]
            _, inverse_Q = self._logits(chunk_QD, logits_QB)
            to_chunk_QD = None if to_proxies_CD is None else to_proxies_CD[first:end]
            push += self._push(first, chunk_QD, logits_QB, exps_QB, inverse_Q, to_unit_BD, to_chunk_QD)
        if to_unit_BD is not None:
            part.sum_(to_unit_BD)
        return pull + part.sum_(push)

    def _logits(self, chunk_QD: Tensor, out_QB: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Logits (Q, B), and 1 / lengths of the proxies."""
        inverse_Q = inverse_lengths(chunk_QD)
        scales_Q1 = (inverse_Q * (self.scale * LOG2_E))[:, None]
        return torch.mm(chunk_QD, self.unit_BD.T, out=out_QB).mul_(scales_Q1), inverse_Q

    def _pull(self, own_inverse_B: Tensor, seats: int) -> tuple[Tensor, Tensor]:
        """Mean over the classes present of log(1 + sum exp(-scale*(s_i - margin))), and `own_weights_B`.

        `seats` is above every label.
        """
        logits_B = torch.rsub(self.own_logits_B, self.offset * LOG2_E)
        zeros_C = logits_B.new_zeros(seats)
        if self.safe:
            sums_C = zeros_C.index_add_(0, self.labels_B, logits_B.exp2_())
            present, values_C = sums_C.sign().sum(), sums_C.log1p()
        else:
            shift_C = zeros_C.scatter_reduce(0, self.labels_B, logits_B, "amax")  # at least the 0 of log(1 +
            logits_B.sub_(shift_C.index_select(0, self.labels_B)).exp2_()
            shift_C = shift_C / LOG2_E
            sums_C = torch.expm1(-shift_C).index_add_(0, self.labels_B, logits_B)  # less 1
            present = zeros_C.index_fill_(0, self.labels_B, 1).sum()
            values_C = sums_C.log1p().add_(shift_C)
        weights_B = logits_B.div_(sums_C.index_select(0, self.labels_B).add_(1)).mul_(-self.scale)
        return values_C.sum() / present, weights_B.div_(present).mul_(own_inverse_B)

    def _push(
        self,
        first: int,
        chunk_QD: Tensor,
        logits_QB: Tensor,
        exps_QB: Tensor,
        inverse_Q: Tensor,
        to_unit_BD: Tensor | None,
        to_chunk_QD: Tensor | None,
    ) -> Tensor:
        """1/total sum_c w_c log(1 + sum_{i: y_i != c} exp(scale*(s_ic + margin))) of the classes from `first` on.

        Adds to the embeddings' gradient and fills the proxies', the part of the own proxies included. Both
        matrices are written over.
        """
        factor, offset = self.scale / self.total, self.offset
        if self.safe:
            torch.exp2(logits_QB, out=exps_QB)
            self.own_entries.fill_(exps_QB, first, 0.0)
            sums_Q = exps_QB.sum(dim=1).mul_(math.exp(offset))
            values_Q, factor = sums_Q.log1p(), factor * math.exp(offset)
        else:
            self.own_entries.fill_(logits_QB, first, -1e4)  # exp2 gives exactly 0
            shift_Q = logits_QB.amax(dim=1).add_(offset * LOG2_E).clamp_min_(0)
            torch.sub(logits_QB, shift_Q.sub(offset * LOG2_E)[:, None], out=exps_QB).exp2_()
            shift_Q = shift_Q / LOG2_E
            sums_Q = torch.expm1(-shift_Q).add_(exps_QB.sum(dim=1))  # less 1
            values_Q = sums_Q.log1p().add_(shift_Q)
            self.own_entries.put_(logits_QB, first, self.own_logits_B)
        slopes_Q = inverse_Q / sums_Q.add_(1)
        if self.part.weights_C is not None:
            weights_Q = self.part.weights_C[first : first + len(chunk_QD)]
            values_Q, slopes_Q = values_Q * weights_Q, slopes_Q * weights_Q
        if to_unit_BD is not None or to_chunk_QD is not None:
            weights_QB = exps_QB.mul_(slopes_Q.mul_(factor)[:, None])
            self.own_entries.put_(weights_QB, first, self.own_weights_B)
            if to_unit_BD is not None:
                torch.addmm(to_unit_BD, weights_QB.T, chunk_QD, beta=min(first, 1), out=to_unit_BD)
            if to_chunk_QD is not None:
                along_Q1 = logits_QB.mul_(weights_QB).sum(dim=1).mul_(inverse_Q)[:, None]
                torch.mm(weights_QB, self.unit_BD, out=to_chunk_QD)
                to_chunk_QD.addcmul_(chunk_QD, along_Q1, value=-1 / (self.scale * LOG2_E))
        return values_Q.sum() / self.total
