"""SoftTriple over chunks of classes: the softmax passes with several centers a class, and the regularizer.

Letters: see `classes.py`.
"""

import math

import torch
from torch import Tensor

from lookalike.losses.large.classes import WHOLE, Part, chunk_classes, chunks, inverse_lengths
from lookalike.losses.large.gradients import loss_with_gradients
from lookalike.losses.large.softmax import Pool, Softmax, softmax_in_chunks


def relaxed_maximum(gamma: float) -> Pool:
    """sum_n softmax_n(s_n/gamma) s_n over dim 1, with its slopes p_n (1 + (s_n - pooled)/gamma)."""

    def pool(sims_QNB: Tensor) -> tuple[Tensor, Tensor]:
        shares_QNB = (sims_QNB / gamma).softmax(dim=1)
        pooled_QB = (shares_QNB * sims_QNB).sum(dim=1)
        if torch.is_grad_enabled():  # the caller differentiates
            return pooled_QB, shares_QNB
        centered_QNB = (sims_QNB - pooled_QB[:, None]).div_(gamma).add_(1)
        return pooled_QB, centered_QNB.mul_(shares_QNB)

    return pool


def soft_triple_in_chunks(
    embeddings_BD: Tensor,
    proxies_PD: Tensor,
    labels_B: Tensor,
    *,
    centers_per_class: int,
    scale: float,
    gamma: float,
    margin: float,
    center_weight: float,
    part: Part = WHOLE,
) -> Tensor:
    """`SoftTriple` of raw embeddings and proxies; settings as there, the rest as in `softmax_in_chunks`."""
    settings = Softmax(
        scale=scale,
        own_logit=lambda pooled_B: scale * (pooled_B - margin),
        pool=relaxed_maximum(gamma),
        proxies_per_class=centers_per_class,
    )
    value = softmax_in_chunks(embeddings_BD, proxies_PD, labels_B, settings, part)
    if center_weight == 0 or centers_per_class == 1:
        return value
    return value + center_weight * center_spread_in_chunks(proxies_PD, centers_per_class, part)


def center_spread_in_chunks(proxies_PD: Tensor, centers_per_class: int, part: Part = WHOLE) -> Tensor:
    """`losses.soft_triple.center_spread`, each class weighed as in `part`."""
    n = centers_per_class
    norm = (part.num_classes or len(proxies_PD) // n) * n * (n - 1)
    step = part.chunk or chunk_classes(1, proxies_PD.shape[1], n, proxies_PD.device)

    def compute(
        unit_BD: Tensor, proxies_PD: Tensor, want_unit: bool, want_proxies: bool
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        value = proxies_PD.new_zeros(())
        gradient_PD = torch.empty_like(proxies_PD) if want_proxies else None
        diagonal_NN = torch.eye(n, dtype=torch.bool, device=proxies_PD.device)
        for first, end in chunks(len(proxies_PD) // n, step):
            rows = slice(first * n, end * n)
            inverse_Q = inverse_lengths(proxies_PD[rows])
            unit_CND = (proxies_PD[rows] * inverse_Q[:, None]).view(-1, n, proxies_PD.shape[1])
            sims_CNN = unit_CND @ unit_CND.mT
            distances_CNN = (
                (2 + 1e-5 - 2 * sims_CNN).clamp_min_(1e-12).sqrt_().masked_fill_(diagonal_NN, math.inf)
            )
            slopes_CNN = distances_CNN.reciprocal()  # minus the derivative by the cosine; 0 on the diagonal
            distances_CNN.masked_fill_(diagonal_NN, 0)
            if part.weights_C is not None:
                distances_CNN *= part.weights_C[first:end, None, None]
                slopes_CNN *= part.weights_C[first:end, None, None]
            value += distances_CNN.sum() / 2
            if gradient_PD is not None:
                along_CN1 = (slopes_CNN * sims_CNN).sum(dim=2, keepdim=True)
                to_unit_CND = torch.baddbmm(along_CN1 * unit_CND, slopes_CNN, unit_CND, alpha=-1)
                torch.mul(to_unit_CND.flatten(0, 1), inverse_Q[:, None] / norm, out=gradient_PD[rows])
        return part.sum_(value) / norm, None, gradient_PD

    return loss_with_gradients(compute, proxies_PD[:1].detach(), proxies_PD)
