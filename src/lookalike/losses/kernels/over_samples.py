"""Losses of blocks of samples, each with all proxies: a formula of the rows of the similarities.

Shapes: B batch, P proxies, b samples of a block, D dimension.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from lookalike.losses.kernels.autograd import ValueAndGradients, value_and_gradients
from lookalike.losses.kernels.chunks import inverse_lengths

SIMILARITIES_PER_BLOCK = {"cpu": 2**20, "accelerator": 2**24}
"""Similarities of a block; a formula holds about ten matrices of this size."""

Formula = Callable[[Tensor, Tensor], Tensor]
"""(similarities (b, P), labels (b,)) -> mean loss of the block."""


def over_samples(
    formula: Formula,
    unit_BD: Tensor,
    proxies_PD: Tensor,
    labels_B: Tensor,
    want_unit: bool,
    want_proxies: bool,
    *,
    samples: int | None = None,
) -> ValueAndGradients:
    """The mean of a loss of single samples, of unit embeddings and raw proxies.

    Whatever the formula decides by the similarities, such as a selection, holds for value and gradients alike:
    both come from one evaluation.

    Args:
        samples: per block; chosen by the number of proxies when None.
    """
    proxies_PD, batch = proxies_PD.detach(), len(unit_BD)
    limit = SIMILARITIES_PER_BLOCK["cpu" if unit_BD.device.type == "cpu" else "accelerator"]
    step = samples or max(1, limit // len(proxies_PD))
    inverse_P = inverse_lengths(proxies_PD)
    value, along_P = unit_BD.new_zeros(()), torch.zeros_like(inverse_P)
    to_unit_BD = torch.empty_like(unit_BD) if want_unit else None
    to_proxies_PD = torch.zeros_like(proxies_PD) if want_proxies else None
    for first in range(0, batch, step):
        block = slice(first, min(first + step, batch))
        unit_bD, labels_b = unit_BD[block], labels_B[block]
        weight = len(labels_b) / batch
        sims_bP = torch.mm(unit_bD, proxies_PD.T).mul_(inverse_P)
        term, (to_sims_bP,) = value_and_gradients(lambda x, labels_b=labels_b: formula(x, labels_b), sims_bP)
        value += term * weight
        along_P += (to_sims_bP * sims_bP).sum(dim=0) * weight
        to_raw_bP = to_sims_bP * (inverse_P * weight)
        if to_unit_BD is not None:
            torch.mm(to_raw_bP, proxies_PD, out=to_unit_BD[block])
        if to_proxies_PD is not None:
            to_proxies_PD.addmm_(to_raw_bP.T, unit_bD)
    if to_proxies_PD is not None:  # less what lies along a proxy, whose length does not matter
        to_proxies_PD.addcmul_(proxies_PD, (along_P * inverse_P.square())[:, None], value=-1)
    return ValueAndGradients(value, to_unit_BD, to_proxies_PD)
