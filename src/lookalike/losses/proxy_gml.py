"""ProxyGML: each sample is classified by its nearest proxies only, through a graph of samples and proxies.

Of all P proxies a sample selects its k nearest, those of its own class first; their similarities, summed by
class, are the logits of a softmax over the classes that have a selected proxy. A regularizer classifies every
proxy by all proxies. The selection itself is not differentiated: other proxies get no gradient from the sample.

Shapes: B batch, C classes, N proxies per class, P = C*N, k selected proxies per sample, R proxies of a block.
"""

import math
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from lookalike.losses.base import ProxyLoss
from lookalike.losses.functional import full_precision, unit_rows
from lookalike.losses.kernels.autograd import ValueAndGradients, loss_with_gradients
from lookalike.losses.kernels.over_samples import over_samples
from lookalike.losses.search_range import SearchRange
from lookalike.utils.validation import check_at_least, check_between, check_choice, check_positive

ALWAYS = 4.0  # a bonus above any difference of similarities
LOGITS_PER_BLOCK = 2**24  # of the regularizer


def select_proxies(
    sims_BP: Tensor, labels_B: Tensor, *, proxies_per_class: int, neighbors: int, positive_bonus: float | None
) -> Tensor:
    """Indices (B, k) of the proxies each sample selects: the largest of similarity + bonus for its own class."""
    with torch.no_grad():
        positive_BN = labels_B[:, None] * proxies_per_class
        positive_BN = positive_BN + torch.arange(proxies_per_class, device=sims_BP.device)
        bonus = ALWAYS if positive_bonus is None else positive_bonus
        ranking_BP = sims_BP.scatter(1, positive_BN, sims_BP.gather(1, positive_BN) + bonus)
        return ranking_BP.topk(neighbors, dim=1, sorted=False).indices


def proxy_gml(
    sims_BP: Tensor,
    labels_B: Tensor,
    *,
    proxies_per_class: int,
    neighbors: int,
    scale: float,
    positive_bonus: float | None,
    mask: str,
) -> Tensor:
    """Mean over the batch of -log of the masked softmax of summed selected similarities, at the own class."""
    selected_Bk = select_proxies(
        sims_BP,
        labels_B,
        proxies_per_class=proxies_per_class,
        neighbors=neighbors,
        positive_bonus=positive_bonus,
    )
    classes_Bk = selected_Bk // proxies_per_class
    zeros_BC = sims_BP.new_zeros(len(sims_BP), sims_BP.shape[1] // proxies_per_class)
    sums_BC = zeros_BC.scatter_add(1, classes_Bk, sims_BP.gather(1, selected_Bk))
    logits_BC, target_B1 = scale * sums_BC, labels_B[:, None]
    if mask == "none":
        return F.cross_entropy(logits_BC, labels_B)
    if mask == "selected":
        outside_BC = torch.ones_like(zeros_BC, dtype=torch.bool).scatter_(1, classes_Bk, False)
        logits_BC = logits_BC.masked_fill(outside_BC.scatter_(1, target_B1, False), -torch.inf)
        return F.cross_entropy(logits_BC, labels_B)
    logits_BC = logits_BC.masked_fill(sums_BC.detach() == 0, -torch.inf)
    floor_B1 = logits_BC.new_full((len(logits_BC), 1), math.log(1e-8))
    sums_B = torch.cat([logits_BC, floor_B1], dim=1).logsumexp(dim=1)
    log_probability_B = logits_BC.gather(1, target_B1)[:, 0] - sums_B
    floor_B = torch.full_like(log_probability_B, math.log(1e-20))
    return -torch.logaddexp(log_probability_B, floor_B).mean()


def proxy_regularizer(proxies_PD: Tensor, *, proxies_per_class: int, rows: int | None = None) -> Tensor:
    """Mean over all proxies of the cross-entropy of their similarities, to themselves too, summed by class.

    Args:
        rows: proxies per block; about 64 MB of logits when None. The logits of further blocks are
            computed again in the backward pass, so memory stays that of one block, rows*C numbers.

    A class's proxies are summed before the product, so it costs P*C*D multiplications, not P*P*D.
    """
    with full_precision(proxies_PD):
        unit_PD = unit_rows(proxies_PD)
        sums_CD = unit_PD.view(-1, proxies_per_class, unit_PD.shape[1]).sum(dim=1)
        class_P = torch.arange(len(sums_CD), device=unit_PD.device).repeat_interleave(proxies_per_class)
        rows = max(1, LOGITS_PER_BLOCK // len(sums_CD)) if rows is None else rows
        if rows >= len(unit_PD):
            return _summed_cross_entropy(unit_PD, sums_CD, class_P) / len(unit_PD)
        blocks = zip(torch.split(unit_PD, rows), torch.split(class_P, rows), strict=True)
        sums = [
            checkpoint(
                _summed_cross_entropy,
                unit_RD,
                sums_CD,
                class_R,
                use_reentrant=False,
                preserve_rng_state=False,
            )
            for unit_RD, class_R in blocks
        ]
        return torch.stack(sums).sum() / len(unit_PD)


def _summed_cross_entropy(unit_RD: Tensor, sums_CD: Tensor, class_R: Tensor) -> Tensor:
    return F.cross_entropy(unit_RD @ sums_CD.T, class_R, reduction="sum")


class ProxyGML(ProxyLoss):
    """ProxyGML: L = mean_i -log P_{i,y_i} + regularizer_weight * regularizer.

    I_i = the k = ceil(r*C*N) proxies with the largest s_ij + bonus*[class j = y_i]
    Z_ic = sum over I_i and class c of s_ij,   P_i = softmax of scale*Z_i over the classes in the graph

    Args:
        proxies_per_class: N.
        neighbor_ratio: r. With k = N (r at most 1/C) only the sample's own proxies are left, and this part of
            the loss and its gradient are 0; with k < N not even all of these are selected.
        regularizer_weight: lambda in the paper; 0 in the authors' command for SOP.
        scale: multiplies the sums; 1 in the paper, and 20 for SOP in a line of the authors' code that is
            commented out. With N proxies per class the sums reach N, which is what sharpens the softmax.
        positive_bonus: compat. None selects every positive proxy (k permitting), as the authors' code does
            with a bonus of 1000; the paper adds 1, which a negative can still outrank.
        mask: compat. Which classes are in the graph: "selected", those with a selected proxy and the own
            class; "nonzero", those whose summed similarities are not exactly 0, with 1e-8 and 1e-20 added in
            the softmax and the logarithm, as in the authors' code; "none", all, as in the paper's ablation.
        num_classes, embedding_dim, generator: see `ProxyLoss`.

    Arguments marked compat imitate a piece of code or an ablation; only studies need them.
    """

    paper = (
        "Zhu, Yang, Deng and Liu, Fewer is More: A Deep Graph Metric Learning Perspective Using Fewer "
        "Proxies, NeurIPS 2020"
    )
    proxy_init = "kaiming_uniform"
    search_space = (
        SearchRange("neighbor_ratio", 0.01, 1, log=True, source="ours"),
        SearchRange("regularizer_weight", 0, 1, source="ours"),
    )
    # 0.05 of the proxies of 5 classes are those of the sample's own class only
    toy_arguments: ClassVar[dict[str, Any]] = {"neighbor_ratio": 0.75}

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        proxies_per_class: int = 12,
        neighbor_ratio: float = 0.05,
        regularizer_weight: float = 0.3,
        scale: float = 1.0,
        positive_bonus: float | None = None,
        mask: str = "selected",
        generator: Generator | None = None,
    ) -> None:
        check_positive("neighbor_ratio", neighbor_ratio)
        check_between("neighbor_ratio", neighbor_ratio, 0, 1)
        check_at_least("regularizer_weight", regularizer_weight, 0)
        check_positive("scale", scale)
        check_at_least("positive_bonus", ALWAYS if positive_bonus is None else positive_bonus, 0)
        check_choice("mask", mask, ("selected", "nonzero", "none"))
        super().__init__(num_classes, embedding_dim, proxies_per_class=proxies_per_class, generator=generator)
        self.neighbor_ratio = neighbor_ratio
        self.regularizer_weight = regularizer_weight
        self.scale = scale
        self.positive_bonus = positive_bonus
        self.mask = mask

    @property
    def neighbors(self) -> int:
        """k = ceil(r*C*N), unaffected by rounding of the product."""
        return max(1, math.ceil(self.neighbor_ratio * len(self.proxies) - 1e-9))

    def forward_checked(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        if self.in_chunks(embeddings):
            value = self.in_blocks(embeddings, labels)
        else:
            value = self.loss_from_similarities(self.similarities(embeddings), labels)
        if self.regularizer_weight == 0:
            return value
        regularizer = proxy_regularizer(self.proxies, proxies_per_class=self.proxies_per_class)
        return value + self.regularizer_weight * regularizer

    def in_blocks(self, embeddings: Tensor, labels: Tensor, *, samples: int | None = None) -> Tensor:
        """The loss without its regularizer, a block of samples at a time; labels are not checked."""

        def compute(
            unit_BD: Tensor, proxies_PD: Tensor, want_unit: bool, want_proxies: bool
        ) -> ValueAndGradients:
            return over_samples(
                self.loss_from_similarities,
                unit_BD,
                proxies_PD,
                labels,
                want_unit,
                want_proxies,
                samples=samples,
            )

        return loss_with_gradients(compute, embeddings, self.proxies)

    def loss_from_similarities(self, similarities: Tensor, labels: Tensor) -> Tensor:
        """Without the regularizer."""
        return proxy_gml(
            similarities,
            labels,
            proxies_per_class=self.proxies_per_class,
            neighbors=self.neighbors,
            scale=self.scale,
            positive_bonus=self.positive_bonus,
            mask=self.mask,
        )
