"""Losses of chunks of classes: similarities of a chunk, the loss's own formula, both gradients, next chunk.

A loss whose terms are sums over classes (Proxy-Anchor) takes one pass and three matrix products. A softmax
needs the sum over all classes before any gradient is known: a first pass finds its logarithm. Where the batch
is not larger than the dimension, it keeps its similarities where the proxies' gradient will be written;
otherwise the second pass computes them again (a fourth product). Neither takes memory that grows with the
number of classes.

Products are taken with raw proxies, and similarities divided by their lengths: normalizing the proxies would
take more time than all formulas, since a proxy has more entries than similarities.

Shapes: B batch, P = C*N proxies of C classes, Q = K*N proxies of a chunk, D dimension.
"""

from typing import Protocol

import torch
from torch import Tensor

from lookalike.losses.kernels.autograd import ValueAndGradients
from lookalike.losses.kernels.chunks import Chunk, Part, inverse_lengths


class SumOverClasses(Protocol):
    """A loss that is a sum over chunks of classes, given the log-sum-exp over all classes if it needs that."""

    proxies_per_class: int

    def log_sums(self, sims_BQ: Tensor, chunk: Chunk) -> Tensor | None:
        """The log-sum-exp (B,) over the classes of a chunk; None for a loss without one."""

    def chunk_value_and_gradient(
        self, sims_BQ: Tensor, chunk: Chunk, log_sums_B: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """What a chunk adds to the loss less the mean of `log_sums_B`, and the gradient by its similarities."""

    def proxy_term(self, proxies_QD: Tensor, chunk: Chunk) -> Tensor | None:
        """What the proxies of a chunk add to the loss on their own; None for nothing."""


def over_classes(
    loss: SumOverClasses,
    unit_BD: Tensor,
    proxies_PD: Tensor,
    labels_B: Tensor,
    part: Part,
    want_unit: bool,
    want_proxies: bool,
) -> ValueAndGradients:
    """The loss of unit embeddings and raw proxies of the classes of `part`."""
    n, (batch, dim) = loss.proxies_per_class, unit_BD.shape
    chunks = list(part.chunks(labels_B, len(proxies_PD) // n, n * max(batch, dim)))
    proxies_PD = proxies_PD.detach()
    to_unit_BD = torch.zeros_like(unit_BD) if want_unit else None
    to_proxies_PD = torch.empty_like(proxies_PD) if want_proxies else None
    keep = part.keep and want_proxies and batch <= dim
    kept: list[tuple[Tensor, Tensor]] = []

    def similarities(chunk: Chunk) -> tuple[Tensor, Tensor]:
        """Cosines (B, Q), and 1 / lengths of the proxies (Q,)."""
        chunk_QD, place_BQ = proxies_PD[_rows(chunk, n)], None
        if keep and to_proxies_PD is not None:
            place_BQ = to_proxies_PD[_rows(chunk, n)].view(-1)[: batch * len(chunk_QD)].view(batch, -1)
        inverse_Q = inverse_lengths(chunk_QD)
        return torch.mm(unit_BD, chunk_QD.T, out=place_BQ).mul_(inverse_Q), inverse_Q

    log_sums_B: Tensor | None = None
    for chunk in chunks:
        found = similarities(chunk)
        sums_B = loss.log_sums(found[0], chunk)
        if sums_B is None:
            kept.append(found)
            break
        log_sums_B = sums_B if log_sums_B is None else torch.logaddexp(log_sums_B, sums_B)
        if keep:
            kept.append(found)
    if log_sums_B is not None:
        log_sums_B = part.logsumexp(log_sums_B)

    value = unit_BD.new_zeros(())
    for number, chunk in enumerate(chunks):
        rows = _rows(chunk, n)
        sims_BQ, inverse_Q = kept[number] if number < len(kept) else similarities(chunk)
        term, to_sims_BQ = loss.chunk_value_and_gradient(sims_BQ, chunk, log_sums_B)
        value += term
        to_raw_BQ = to_sims_BQ.mul_(inverse_Q)  # both in place: a new matrix costs more than the product
        along_Q = sims_BQ.mul_(to_raw_BQ).sum(dim=0).mul_(inverse_Q)
        if to_unit_BD is not None:
            to_unit_BD.addmm_(to_raw_BQ, proxies_PD[rows])
        to_chunk_QD = None
        if to_proxies_PD is not None:
            to_chunk_QD = torch.mm(to_raw_BQ.T, unit_BD, out=to_proxies_PD[rows])
            to_chunk_QD.addcmul_(proxies_PD[rows], along_Q[:, None], value=-1)  # lengths do not matter
        value += _add_proxy_term(loss, proxies_PD[rows], chunk, to_chunk_QD)
    part.sum_(value)
    if to_unit_BD is not None:
        part.sum_(to_unit_BD)
    if log_sums_B is not None:
        value += log_sums_B.mean()
    return ValueAndGradients(value, to_unit_BD, to_proxies_PD)


def _rows(chunk: Chunk, proxies_per_class: int) -> slice:
    """The proxies of a chunk."""
    return slice(chunk.classes.start * proxies_per_class, chunk.classes.stop * proxies_per_class)


def _add_proxy_term(
    loss: SumOverClasses, proxies_QD: Tensor, chunk: Chunk, to_proxies_QD: Tensor | None
) -> Tensor | float:
    """The proxies' own term, its gradient added."""
    with torch.enable_grad():
        proxies_QD = proxies_QD.detach().requires_grad_()
        term = loss.proxy_term(proxies_QD, chunk)
        if term is None:
            return 0.0
        if to_proxies_QD is not None:
            to_proxies_QD += torch.autograd.grad(term, proxies_QD)[0]
    return term.detach()
