"""Softmax losses over chunks of classes: Proxy-NCA and ++, NormSoftmax, CosFace, ArcFace, SoftTriple.

A softmax needs the sum over all classes before any gradient by a proxy is known, so there are two passes.
The first adds up exponentials, and already the embeddings' gradients up to one factor a sample. The second
finds the proxies' gradients from the exponentials of the first, when they could be kept (one B x P matrix),
or computes them again (a fourth matrix product, and no memory that grows with the number of classes).

Where one chunk holds all classes there is one pass: own proxies are then entries like all others.

Cosines are bounded, so exponentials of logits up to about +-65 (float32) need no shift; above, the largest
logit of each sample is found first, which takes one more product.

Letters: see `classes.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from lookalike.losses.kernels.autograd import Compute
from lookalike.losses.kernels.centers import Pool, center_spread_of_chunk
from lookalike.losses.kernels.common import (
    WHOLE,
    OwnEntries,
    OwnProxies,
    Part,
    chunk_classes,
    chunks,
    exponentials_,
    fits_exponent,
    inverse_lengths,
)

KEPT_BYTES = 2**28
"""The B x P matrix of exponentials is kept up to this size (256 MB), and computed twice above it."""


@dataclass(frozen=True)
class Softmax:
    """Which softmax loss: mean over the batch of log sum_c w_c exp(z_c) - z_y, with z = scale * cosine.

    Attributes:
        scale: factor of the cosines of all other classes.
        own_margin: taken off the cosine of the own class.
        move_own: cosine of the own class -> what counts in its place, for other margins.
        include_own: whether the sum has the own class too.
        label_smoothing: share of the target that the C-1 other classes have together.
        pool_: for several proxies a class; None when there is one.
        center_weight: of half the mean distance between the proxies of a class, which is added.
    """

    scale: float
    own_margin: float = 0.0
    move_own: Callable[[Tensor], Tensor] | None = None
    include_own: bool = True
    label_smoothing: float = 0.0
    pool_: Pool | None = None
    proxies_per_class: int = 1
    center_weight: float = 0.0


def softmax_in_chunks(labels_B: Tensor, settings: Softmax, part: Part = WHOLE) -> Compute:
    """A softmax loss of the cosines of embeddings and proxies, without holding matrices of their size.

    Args:
        part: which classes the proxies are; its weights multiply the classes' exponentials. Proxies come
            class-major.
    """

    def compute(
        unit_BD: Tensor, proxies_PD: Tensor, want_unit: bool, want_proxies: bool
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        batch, dim = unit_BD.shape
        keep = part.keep if part.keep is not None else batch * len(proxies_PD) * 4 <= KEPT_BYTES
        step = part.chunk or chunk_classes(batch, dim, settings.proxies_per_class, unit_BD.device)
        passes = _Passes(settings, unit_BD, proxies_PD, labels_B, part, step=step, keep=keep and want_proxies)
        return passes.run(want_unit, want_proxies)

    return compute


class _Passes:
    """One evaluation of a softmax loss: the matrices that both passes need, and the passes."""

    def __init__(
        self,
        settings: Softmax,
        unit_BD: Tensor,
        proxies_PD: Tensor,
        labels_B: Tensor,
        part: Part,
        *,
        step: int,
        keep: bool,
    ) -> None:
        self.settings, self.part, self.step, self.keep = settings, part, step, keep
        self.unit_BD, self.proxies_PD, self.labels_B = unit_BD, proxies_PD, labels_B
        self.per_class = settings.proxies_per_class
        self.held = len(proxies_PD) // self.per_class
        self.total = part.num_classes or self.held
        self.own_entries = OwnEntries(labels_B, part, self.held)
        rows = len(proxies_PD) if keep else min(step, self.held) * self.per_class
        self.buffer_PB = unit_BD.new_empty(rows, len(unit_BD))
        self.inverse_P = unit_BD.new_empty(len(proxies_PD))
        self.shift_B: Tensor | None = None
        self.center_spread = unit_BD.new_zeros(())

    def run(self, want_unit: bool, want_proxies: bool) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Value and gradients."""
        if self.step >= self.held and self.part.processes is None:
            return self._at_once(want_unit, want_proxies)
        settings, part, batch = self.settings, self.part, len(self.unit_BD)
        own = OwnProxies.of(
            self.unit_BD, self.proxies_PD, self.labels_B, proxies_per_class=self.per_class, part=part
        )
        own_B, own_slopes_BN = own.sims_BN[:, 0], None
        if settings.pool_ is not None:
            own_slopes_BN = own.sims_BN.clone()
            own_B = settings.pool_(own_slopes_BN)
        logits_B, logit_slopes_B = _own_logits(own_B, settings)
        if not fits_exponent(settings.scale, self.total, self.unit_BD.dtype):
            self.shift_B = self._largest_logits()
        sums_B, to_unit_BD = self._first_pass(want_unit)
        values_B, slopes_B, shares_B = self._compare(part.sum_(sums_B), logits_B)
        if to_unit_BD is not None:
            to_unit_BD.mul_(shares_B[:, None])
        spread_D, own_extra = None, 0.0
        if settings.label_smoothing:
            spread = self._smoothing_slope()
            held_D = self.proxies_PD.T @ self.inverse_P  # sum of unit proxies
            if to_unit_BD is not None:
                to_unit_BD.sub_(held_D, alpha=spread)
            sums_B = self.unit_BD @ part.sum_(held_D.clone())
            values_B = self._smoothed(values_B, logits_B, sums_B - own.sims_BN[:, 0])
            slopes_B = slopes_B + settings.label_smoothing
            spread_D = self.unit_BD.sum(dim=0).mul_(-spread)
            own_extra = spread  # all classes had it, the own too
        weights_BN = (logit_slopes_B * slopes_B / batch + own_extra)[:, None]
        if own_slopes_BN is not None:
            weights_BN = own_slopes_BN.mul_(weights_BN)
        to_proxies_PD = (
            self._second_pass(self.unit_BD * shares_B[:, None], spread_D) if want_proxies else None
        )
        value = values_B.mean()
        if settings.center_weight:
            value += part.sum_(self.center_spread if want_proxies else self._center_spread())
        own.add_gradients(weights_BN, self.unit_BD, to_unit_BD, to_proxies_PD)
        if to_unit_BD is not None:
            part.sum_(to_unit_BD)
        return value, to_unit_BD, to_proxies_PD

    def _at_once(self, want_unit: bool, want_proxies: bool) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The same where one chunk holds all classes: every slope by a cosine in one matrix."""
        settings, batch = self.settings, len(self.unit_BD)
        self.inverse_P = inverse_lengths(self.proxies_PD)
        sims_PB = self._cosines(0, self.held, self.buffer_PB, self.inverse_P)
        sims_CB = sims_PB
        if settings.pool_ is not None:
            sims_CB = settings.pool_(sims_PB.view(self.held, self.per_class, -1))
        own_B = self.own_entries.of(sims_CB)
        logits_B, logit_slopes_B = _own_logits(own_B, settings)
        rest_B = sims_CB.sum(dim=0).sub_(own_B) if settings.label_smoothing else own_B
        if not fits_exponent(settings.scale, self.total, self.unit_BD.dtype):
            self.own_entries.fill_(sims_CB, 0, -1.0)
            self.shift_B = sims_CB.amax(dim=0).mul_(settings.scale)
        exps_CB = exponentials_(sims_CB, settings.scale, self.shift_B)
        self.own_entries.fill_(exps_CB, 0, 0.0)
        if self.part.weights_C is not None:
            exps_CB.mul_(self.part.weights_C[:, None])
        values_B, slopes_B, shares_B = self._compare(exps_CB.sum(dim=0), logits_B)
        weights_CB = exps_CB.mul_(shares_B)
        if settings.label_smoothing:
            values_B = self._smoothed(values_B, logits_B, rest_B)
            slopes_B = slopes_B + settings.label_smoothing
            weights_CB.sub_(self._smoothing_slope())
        self.own_entries.put_(weights_CB, 0, logit_slopes_B * slopes_B / batch)
        weights_PB = weights_CB
        if settings.pool_ is not None:
            sims_PB.view(self.held, self.per_class, -1).mul_(weights_CB[:, None])  # the slopes there
            weights_PB = sims_PB
        weights_PB.mul_(self.inverse_P[:, None])
        to_unit_BD = torch.mm(weights_PB.T, self.proxies_PD) if want_unit else None
        to_proxies_PD = None
        if want_proxies:
            to_proxies_PD = torch.mm(weights_PB, self.unit_BD)
            self._finish(0, self.held, to_proxies_PD, torch.empty_like(to_proxies_PD))
        value = values_B.mean()
        if settings.center_weight:
            value += self.center_spread if want_proxies else self._center_spread()
        return value, to_unit_BD, to_proxies_PD

    def _compare(self, sums_B: Tensor, logits_B: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Losses, their slopes by the own logits, and what turns exponentials into slopes of the mean by cosines.

        `sums_B` are those of the other classes' exponentials, relative to the shift.
        """
        others_B = sums_B.log()
        own_B = logits_B if self.shift_B is None else logits_B - self.shift_B
        if self.settings.include_own:
            values_B = F.softplus(others_B - own_B, threshold=40)
            slopes_B = torch.sigmoid(others_B - own_B).neg_()
            whole_B = torch.logaddexp(others_B, own_B)
        else:
            values_B, slopes_B, whole_B = others_B - own_B, -torch.ones_like(own_B), others_B
        return values_B, slopes_B, torch.exp(-whole_B).mul_(self.settings.scale / len(self.unit_BD))

    def _smoothed(self, values_B: Tensor, logits_B: Tensor, rest_B: Tensor) -> Tensor:
        """Adds smoothing * (z_y - mean of the other z), given the sums of the other cosines."""
        mean_B = rest_B * (self.settings.scale / max(self.total - 1, 1))
        return values_B + self.settings.label_smoothing * (logits_B - mean_B)

    def _smoothing_slope(self) -> float:
        """Minus the slope that smoothing gives to every other cosine."""
        others = max(self.total - 1, 1)
        return self.settings.scale * self.settings.label_smoothing / (others * len(self.unit_BD))

    def _cosines(self, first: int, end: int, out_QB: Tensor, inverse_Q: Tensor) -> Tensor:
        chunk_QD = self.proxies_PD[first * self.per_class : end * self.per_class]
        return torch.mm(chunk_QD, self.unit_BD.T, out=out_QB).mul_(inverse_Q[:, None])

    def _exponentials(self, first: int, end: int, sums_B: Tensor | None) -> Tensor:
        """w_c exp(z_c) times the slopes of the pooled cosine by each proxy, (Q, B), 0 at own classes.

        Rows are divided by the lengths of their proxies, so that products with raw proxies are right. Adds
        the bare w_c exp(z_c) to `sums_B`.
        """
        rows = slice(first * self.per_class, end * self.per_class)
        inverse_Q = self.inverse_P[rows]
        out_QB = self.buffer_PB[rows] if self.keep else self.buffer_PB[: rows.stop - rows.start]
        sims_QB = self._cosines(first, end, out_QB, inverse_Q)
        if self.settings.pool_ is not None:
            sims_QB = self.settings.pool_(out_QB.view(end - first, self.per_class, -1))
        exps_QB = exponentials_(sims_QB, self.settings.scale, self.shift_B)
        self.own_entries.fill_(exps_QB, first, 0.0)
        if self.part.weights_C is not None:
            exps_QB.mul_(self.part.weights_C[first:end, None])
        if sums_B is not None:
            sums_B += exps_QB.sum(dim=0)
        if self.settings.pool_ is not None:
            out_QB.view(end - first, self.per_class, -1).mul_(exps_QB[:, None])  # the slopes there
        return out_QB.mul_(inverse_Q[:, None])

    def _first_pass(self, want_unit: bool) -> tuple[Tensor, Tensor | None]:
        """Sums of w_c exp(z_c), and of w_c exp(z_c) times unit proxies."""
        sums_B = self.unit_BD.new_zeros(len(self.unit_BD))
        to_unit_BD = torch.zeros_like(self.unit_BD) if want_unit else None
        for first, end in chunks(self.held, self.step):
            chunk_QD = self.proxies_PD[first * self.per_class : end * self.per_class]
            self.inverse_P[first * self.per_class : end * self.per_class] = inverse_lengths(chunk_QD)
            exps_QB = self._exponentials(first, end, sums_B)
            if to_unit_BD is not None:
                to_unit_BD.addmm_(exps_QB.T, chunk_QD)
        return sums_B, to_unit_BD

    def _second_pass(self, shared_BD: Tensor, spread_D: Tensor | None) -> Tensor:
        """The proxies' gradient, of all but the own proxies' part."""
        to_proxies_PD = torch.empty_like(self.proxies_PD)
        scratch_QD = torch.empty_like(self.proxies_PD[: self.step * self.per_class])
        for first, end in chunks(self.held, self.step):
            rows = slice(first * self.per_class, end * self.per_class)
            chunk_QD, inverse_Q = self.proxies_PD[rows], self.inverse_P[rows]
            exps_QB = self.buffer_PB[rows] if self.keep else self._exponentials(first, end, None)
            to_chunk_QD = torch.mm(exps_QB, shared_BD, out=to_proxies_PD[rows])
            if spread_D is not None:
                to_chunk_QD.addr_(inverse_Q, spread_D)
            self._finish(first, end, to_chunk_QD, scratch_QD[: len(chunk_QD)])
        return to_proxies_PD

    def _finish(self, first: int, end: int, to_chunk_QD: Tensor, scratch_QD: Tensor) -> None:
        """Adds the gradient of the centers' spread, and takes out what lies along each proxy."""
        rows = slice(first * self.per_class, end * self.per_class)
        chunk_QD, inverse_Q = self.proxies_PD[rows], self.inverse_P[rows]
        if self.settings.center_weight:
            self.center_spread += self._centers(first, end, to_chunk_QD)
        along_Q = torch.mul(to_chunk_QD, chunk_QD, out=scratch_QD).sum(dim=1)
        to_chunk_QD.addcmul_(chunk_QD, along_Q.mul_(inverse_Q).mul_(inverse_Q)[:, None], value=-1)

    def _centers(self, first: int, end: int, to_chunk_QD: Tensor | None) -> Tensor:
        """The spread of a chunk's centers, its gradient added."""
        n = self.per_class
        rows, weights_C = slice(first * n, end * n), self.part.weights_C
        return center_spread_of_chunk(
            self.proxies_PD[rows],
            self.inverse_P[rows],
            to_chunk_QD,
            centers=n,
            factor=self.settings.center_weight / (self.total * n * (n - 1)),
            weights_C=None if weights_C is None else weights_C[first:end],
        )

    def _center_spread(self) -> Tensor:
        """The spread of all centers, without gradient."""
        parts = [self._centers(first, end, None) for first, end in chunks(self.held, self.step)]
        return torch.stack(parts).sum()

    def _largest_logits(self) -> Tensor:
        """The largest logit of another class, for each sample: one product more, for large scales only."""
        largest_B = self.unit_BD.new_full((len(self.unit_BD),), -self.settings.scale)
        buffer_QB = self.unit_BD.new_empty(min(self.step, self.held) * self.per_class, len(self.unit_BD))
        for first, end in chunks(self.held, self.step):
            chunk_QD = self.proxies_PD[first * self.per_class : end * self.per_class]
            sims_QB = self._cosines(first, end, buffer_QB[: len(chunk_QD)], inverse_lengths(chunk_QD))
            if self.settings.pool_ is not None:
                sims_QB = self.settings.pool_(sims_QB.view(end - first, self.per_class, -1))
            self.own_entries.fill_(sims_QB, first, -1.0)
            torch.maximum(largest_B, sims_QB.amax(dim=0).mul_(self.settings.scale), out=largest_B)
        return self.part.maximum_(largest_B)


def _own_logits(own_B: Tensor, settings: Softmax) -> tuple[Tensor, Tensor | float]:
    """Logits of the own classes (B,), and their slopes by the own cosines."""
    slopes_B: Tensor | float = settings.scale
    if settings.move_own is not None:
        with torch.enable_grad():
            own_B = own_B.detach().requires_grad_()
            moved_B = settings.move_own(own_B)
            slopes_B = torch.autograd.grad(moved_B.sum(), own_B)[0].mul_(settings.scale)
        own_B = moved_B.detach()
    return (own_B - settings.own_margin).mul_(settings.scale), slopes_B
