"""PFML: every embedding and proxy is a charge that attracts its class from afar and repels other classes nearby.

Shapes: n = B + P points, the batch's embeddings before all proxies.
"""

from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from lookalike.losses.base import ProxyLoss
from lookalike.losses.functional import full_precision, unit_rows
from lookalike.losses.search_range import SearchRange
from lookalike.utils.validation import check_at_least, check_choice, check_positive

LEAST_DISTANCE = 1e-4  # below it, the repulsion of two points of different classes grows no more


def potential(points_nD: Tensor, labels_n: Tensor, *, alpha: float, delta: float, reduction: str) -> Tensor:
    """Sum (or mean) over ordered pairs of points of -max(r, delta)^-alpha (one class) or min(r, delta)^-alpha.

    r is their Euclidean distance. One class attracts beyond delta, different classes repel within it.
    """
    n = len(points_nD)
    distances_nn = torch.cdist(points_nD, points_nD, compute_mode="donot_use_mm_for_euclid_dist")
    same_nn = labels_n[:, None] == labels_n
    own_nn = torch.eye(n, dtype=torch.bool, device=points_nD.device)
    attraction_nn = -(distances_nn.clamp_min(delta) ** -alpha)
    repulsion_nn = distances_nn.clamp(LEAST_DISTANCE, delta) ** -alpha
    total = torch.where(same_nn, attraction_nn, repulsion_nn).masked_fill(own_nn, 0.0).sum()
    return total if reduction == "sum" else total / (n * (n - 1))


class PotentialField(ProxyLoss):
    """PFML: U = sum over ordered pairs a != b of psi(r_ab), over the batch's embeddings and all proxies.

    psi(r) = -max(r, delta)^-alpha within a class,  min(r, delta)^-alpha between classes

    Pairs of proxies take part, also of classes that the batch lacks. Takes (B + C*N)^2 numbers of memory.

    Args:
        proxies_per_class: M in the paper; 15 on CUB-200-2011 and Cars196, 2 on Stanford Online Products.
        alpha: exponent; searched in 0 to 6 there.
        delta: radius; searched in 0.1 to 0.3 there.
        reduction: "sum", as in the paper, or "mean" over ordered pairs; they differ under weight decay and
            clipping only.
        normalize_proxies: whether distances are of unit proxies; no source says.
        num_classes, embedding_dim, generator: see `ProxyLoss`.

    There is no public code, and the formula is read from restatements of the paper that agree; which alpha and
    delta gave its numbers no source says. No fidelity beyond the formula is claimed.
    """

    paper = "Bhatnagar and Ahuja, Potential Field Based Deep Metric Learning, CVPR 2025"
    proxy_init = "randn"
    search_space = (
        SearchRange("alpha", 0, 6, source="ours"),
        SearchRange("delta", 0.1, 0.3, source="ours"),
    )
    toy_arguments: ClassVar[dict[str, Any]] = {"proxies_per_class": 2, "delta": 0.8, "reduction": "mean"}

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        proxies_per_class: int = 15,
        alpha: float = 3.0,
        delta: float = 0.2,
        reduction: str = "sum",
        normalize_proxies: bool = True,
        generator: Generator | None = None,
    ) -> None:
        check_at_least("alpha", alpha, 0)
        check_positive("delta", delta)
        check_choice("reduction", reduction, ("sum", "mean"))
        super().__init__(num_classes, embedding_dim, proxies_per_class=proxies_per_class, generator=generator)
        self.alpha = alpha
        self.delta = delta
        self.reduction = reduction
        self.normalize_proxies = normalize_proxies

    def forward_checked(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        with full_precision(embeddings):
            unit_BD = unit_rows(embeddings)
            proxies_PD = unit_rows(self.proxies) if self.normalize_proxies else self.proxies
            dtype = torch.promote_types(unit_BD.dtype, proxies_PD.dtype)
            points_nD = torch.cat([unit_BD.to(dtype), proxies_PD.to(dtype)])
            class_P = torch.arange(self.num_classes, device=labels.device).repeat_interleave(
                self.proxies_per_class
            )
            return potential(
                points_nD,
                torch.cat([labels, class_P]),
                alpha=self.alpha,
                delta=self.delta,
                reduction=self.reduction,
            )

    def loss_from_similarities(self, similarities: Tensor, labels: Tensor) -> Tensor:
        """Not defined: pairs of embeddings and pairs of proxies count too."""
        raise NotImplementedError("the potential is not a function of the batch's similarities with proxies")
