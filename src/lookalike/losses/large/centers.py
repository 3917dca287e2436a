"""What several centers of a class add to a softmax loss: a soft maximum over them, and a pull between them.

Letters: see `classes.py`.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Pool = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Cosines of a class's N proxies, on dim 1 -> the cosine of the class, and its slopes by the N cosines."""


def soft_maximum(gamma: float) -> Pool:
    """sum_n q_n s_n over dim 1, q = softmax(s/gamma), with its slopes q_n (1 + (s_n - sum)/gamma)."""

    def pool(sims_QNB: Tensor) -> tuple[Tensor, Tensor]:
        logits_QNB = sims_QNB / gamma
        shares_QNB = logits_QNB.softmax(dim=1)
        parts_QNB = logits_QNB.mul_(shares_QNB)
        pooled_QB = parts_QNB.sum(dim=1)
        slopes_QNB = parts_QNB.addcmul_(shares_QNB, (1 - pooled_QB)[:, None])
        return pooled_QB.mul_(gamma), slopes_QNB

    return pool


def center_spread_of_chunk(
    proxies_QD: Tensor,
    inverse_Q: Tensor,
    to_proxies_QD: Tensor | None,
    *,
    centers: int,
    factor: float,
    weights_C: Tensor | None,
) -> Tensor:
    """factor * sum over classes and pairs of their centers of sqrt(2 + 1e-5 - 2*cosine).

    Adds to `to_proxies_QD` the gradient by unit proxies divided by their lengths; what lies along a proxy is
    left to the caller to take out.
    """
    raw_CND = proxies_QD.view(-1, centers, proxies_QD.shape[1])
    inverse_CN = inverse_Q.view(-1, centers)
    inverses_CNN = inverse_CN[:, :, None] * inverse_CN[:, None]
    squares_CNN = torch.bmm(raw_CND, raw_CND.mT).mul_(inverses_CNN).mul_(-2).add_(2 + 1e-5)
    slopes_CNN = squares_CNN.clamp_min_(1e-12).rsqrt()  # minus the derivatives by the cosines
    slopes_CNN.diagonal(dim1=1, dim2=2).zero_()
    distances_CNN = squares_CNN.mul_(slopes_CNN)
    if weights_C is not None:
        distances_CNN *= weights_C[:, None, None]
        slopes_CNN *= weights_C[:, None, None]
    if to_proxies_QD is not None:
        to_proxies_QD.view_as(raw_CND).baddbmm_(slopes_CNN.mul_(inverses_CNN), raw_CND, alpha=-factor)
    return distances_CNN.sum().mul_(factor / 2)
