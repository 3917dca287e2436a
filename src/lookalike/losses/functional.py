"""Unit vectors and the precision that losses compute in.

Shapes: N rows, D dimension.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def unit_rows(x_ND: Tensor) -> Tensor:
    """The rows of `x_ND` divided by their lengths, in at least float32.

    Dividing by the largest entry first keeps lengths from 1e-38 to 1e38 exact. A row of zeros stays zero,
    with a finite gradient.
    """
    x_ND = x_ND.to(torch.promote_types(x_ND.dtype, torch.float32))
    largest_N1 = x_ND.detach().abs().amax(dim=-1, keepdim=True)
    x_ND = x_ND / largest_N1.masked_fill(largest_N1 == 0, 1)
    norm_N1: Tensor = torch.linalg.vector_norm(x_ND, dim=-1, keepdim=True)  # 0, or at least 1
    return x_ND / norm_N1.clamp_min(0.5)


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """A context without autocast, in which a loss is computed in float32 or better."""
    device = x.device.type
    if not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
        return nullcontext()  # entering a real context takes ten times as long
    return torch.autocast(device, enabled=False)
