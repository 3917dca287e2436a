"""Proxy-Anchor in one pass over chunks of classes.

Its sums run over the batch, so each class can be finished on its own: similarities of a chunk, their
exponentials, both gradients, next chunk. Three matrix products in all, and no B x C matrix.

Logits are LOG2_E * scale * cosine here, so that their exponentials are powers of 2.

Letters: see `classes.py`.
"""

import math

import torch
from torch import Tensor

from lookalike.losses.large.classes import (
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
from lookalike.losses.large.gradients import Compute


def proxy_anchor_in_chunks(labels_B: Tensor, *, margin: float, scale: float, part: Part = WHOLE) -> Compute:
    """`losses.proxy_anchor.proxy_anchor` of the cosines, without ever holding them all.

    Args:
        part: which classes the proxies are; its weights multiply the classes' negative terms.

    Extra memory: 2 chunk x B matrices.
    """

    def compute(
        unit_BD: Tensor, proxies_CD: Tensor, want_unit: bool, want_proxies: bool
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        total = part.num_classes or len(proxies_CD)
        step = part.chunk or chunk_classes(len(unit_BD), unit_BD.shape[1], 1, unit_BD.device)
        own_entries = OwnEntries(labels_B, part, len(proxies_CD))
        logits_CB, inverse_C = None, None
        if step >= len(proxies_CD) and part.processes is None:  # one chunk, which has the own cosines too
            logits_CB, inverse_C = _logits(proxies_CD, unit_BD, scale)
            own_logits_B, own_inverse_B = own_entries.of(logits_CB), inverse_C.index_select(0, labels_B)
        else:
            own = OwnProxies.of(unit_BD, proxies_CD, labels_B, proxies_per_class=1, part=part)
            own_logits_B, own_inverse_B = own.sims_BN[:, 0] * (scale * LOG2_E), own.inverse_BN[:, 0]
        to_unit_BD = torch.empty_like(unit_BD) if want_unit else None
        to_proxies_CD = torch.empty_like(proxies_CD) if want_proxies else None
        seats = len(proxies_CD) if part.processes is None else total  # labels are below this
        pull, own_slopes_B = _pull(own_logits_B, labels_B, margin=margin, scale=scale, seats=seats)
        push = _push(
            unit_BD, proxies_CD, own_entries, own_logits_B, own_slopes_B * own_inverse_B,
            to_unit_BD, to_proxies_CD, logits_CB, inverse_C,
            margin=margin, scale=scale, weights_C=part.weights_C, total=total, step=step,
        )  # fmt: skip
        if to_unit_BD is not None:
            part.sum_(to_unit_BD)
        return pull + part.sum_(push), to_unit_BD, to_proxies_CD

    return compute


def _logits(
    chunk_QD: Tensor, unit_BD: Tensor, scale: float, out_QB: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Logits (Q, B), and 1 / lengths of the proxies."""
    inverse_Q = inverse_lengths(chunk_QD)
    scales_Q1 = (inverse_Q * (scale * LOG2_E))[:, None]
    return torch.mm(chunk_QD, unit_BD.T, out=out_QB).mul_(scales_Q1), inverse_Q


def _pull(
    own_logits_B: Tensor, labels_B: Tensor, *, margin: float, scale: float, seats: int
) -> tuple[Tensor, Tensor]:
    """Mean over the classes present of log(1 + sum exp(-scale*(s_i - margin))), and its slopes by the own
    cosines; `seats` is above every label."""
    logits_B = torch.rsub(own_logits_B, scale * margin * LOG2_E)
    zeros_C = logits_B.new_zeros(seats)
    if fits_exponent(scale * (1 + abs(margin)), len(labels_B), logits_B.dtype):
        sums_C = zeros_C.index_add_(0, labels_B, logits_B.exp2_())
        present, values_C = sums_C.sign().sum(), sums_C.log1p()
    else:
        shift_C = zeros_C.scatter_reduce(0, labels_B, logits_B, "amax")  # at least the 0 of log(1 +
        logits_B.sub_(shift_C.index_select(0, labels_B)).exp2_()
        shift_C = shift_C / LOG2_E
        sums_C = torch.expm1(-shift_C).index_add_(0, labels_B, logits_B)  # less 1
        present = zeros_C.index_fill_(0, labels_B, 1).sum()
        values_C = sums_C.log1p().add_(shift_C)
    slopes_B = logits_B.div_(sums_C.index_select(0, labels_B).add_(1)).mul_(-scale / present)
    return values_C.sum() / present, slopes_B


def _push(
    unit_BD: Tensor,
    proxies_CD: Tensor,
    own_entries: OwnEntries,
    own_logits_B: Tensor,
    own_weights_B: Tensor,
    to_unit_BD: Tensor | None,
    to_proxies_CD: Tensor | None,
    logits_CB: Tensor | None,
    inverse_C: Tensor | None,
    *,
    margin: float,
    scale: float,
    weights_C: Tensor | None,
    total: int,
    step: int,
) -> Tensor:
    """1/total sum_c w_c log(1 + sum_{i: y_i != c} exp(scale*(s_ic + margin))).

    Fills both gradients, those of the own proxies' part included: `own_weights_B` are its slopes by the own
    cosines, over the lengths of the proxies. `logits_CB` and `inverse_C` are those of all classes when one
    chunk holds them.
    """
    batch, offset = len(unit_BD), scale * margin
    safe = fits_exponent(scale * (1 + abs(margin)), batch, unit_BD.dtype)
    value = unit_BD.new_zeros(())
    sims_buffer = unit_BD.new_empty(min(step, len(proxies_CD)), batch) if logits_CB is None else logits_CB
    exps_buffer = torch.empty_like(sims_buffer)
    for first, end in chunks(len(proxies_CD), step):
        chunk_QD = proxies_CD[first:end]
        logits_QB, exps_QB, inverse_Q = sims_buffer[: end - first], exps_buffer[: end - first], inverse_C
        if inverse_Q is None:
            logits_QB, inverse_Q = _logits(chunk_QD, unit_BD, scale, logits_QB)
        if safe:
            torch.exp2(logits_QB, out=exps_QB)
            own_entries.fill_(exps_QB, first, 0.0)
            sums_Q = exps_QB.sum(dim=1).mul_(math.exp(offset))
            values_Q, slopes_Q = sums_Q.log1p(), math.exp(offset) / (1 + sums_Q)
        else:
            own_entries.fill_(logits_QB, first, -1e4)  # exp2 gives exactly 0
            shift_Q = logits_QB.amax(dim=1).add_(offset * LOG2_E).clamp_min_(0)
            torch.sub(logits_QB, shift_Q.sub(offset * LOG2_E)[:, None], out=exps_QB).exp2_()
            shift_Q = shift_Q / LOG2_E
            above_Q = torch.expm1(-shift_Q).add_(exps_QB.sum(dim=1))
            values_Q, slopes_Q = shift_Q + above_Q.log1p(), 1 / (1 + above_Q)
            own_entries.put_(logits_QB, first, own_logits_B)
        if weights_C is not None:
            values_Q, slopes_Q = values_Q * weights_C[first:end], slopes_Q * weights_C[first:end]
        value += values_Q.sum()
        if to_unit_BD is None and to_proxies_CD is None:
            continue
        weights_QB = exps_QB.mul_(slopes_Q.mul_(inverse_Q).mul_(scale / total)[:, None])
        own_entries.put_(weights_QB, first, own_weights_B)
        if to_unit_BD is not None:
            torch.addmm(to_unit_BD, weights_QB.T, chunk_QD, beta=min(first, 1), out=to_unit_BD)
        if to_proxies_CD is not None:
            along_Q = logits_QB.mul_(weights_QB).sum(dim=1).mul_(inverse_Q).div_(-scale * LOG2_E)
            torch.mm(weights_QB, unit_BD, out=to_proxies_CD[first:end]).addcmul_(chunk_QD, along_Q[:, None])
    return value / total
