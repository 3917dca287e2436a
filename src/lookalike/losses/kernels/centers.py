"""What several centers of a class add to a softmax loss: a soft maximum over them, and a pull between them.

Letters: see `classes.py`.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Pool = Callable[[Tensor], Tensor]
"""Cosines of a class's N proxies, on dim 1 -> the cosine of the class; leaves its slopes in place of the N cosines."""


def soft_maximum_(gamma: float) -> Pool:
    """sum_n q_n s_n over dim 1, q = softmax(s/gamma), with its slopes q_n (1 + (s_n - sum)/gamma).

    The slopes of a class add up to 1, and of two centers q_1 is a sigmoid of the difference.
    """

    def pool_(sims_QNB: Tensor) -> Tensor:
        if sims_QNB.shape[1] == 2:
            return of_two_(*sims_QNB.unbind(dim=1))
        logits_QNB = sims_QNB / gamma
        shares_QNB = logits_QNB.softmax(dim=1)
        parts_QNB = logits_QNB.mul_(shares_QNB)
        pooled_QB = parts_QNB.sum(dim=1)
        torch.addcmul(parts_QNB, shares_QNB, (1 - pooled_QB)[:, None], out=sims_QNB)
        return pooled_QB.mul_(gamma)

    def of_two_(first_QB: Tensor, second_QB: Tensor) -> Tensor:
        lead_QB = torch.sub(first_QB, second_QB).mul_(1 / gamma)
        share_QB = lead_QB.sigmoid()
        above_QB = lead_QB.mul_(share_QB)  # how far the pooled cosine is above the second, in gammas
        torch.addcmul(share_QB, above_QB, share_QB, value=-1, out=first_QB).add_(above_QB)
        pooled_QB = above_QB.mul_(gamma).add_(second_QB)
        torch.sub(1, first_QB, out=second_QB)
        return pooled_QB

    return pool_


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
