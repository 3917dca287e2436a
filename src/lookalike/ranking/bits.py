"""Two tricks with bits that make counting fast: True counted eight at a time, and floats sorted as integers."""

import torch
from torch import Tensor


def count_true(mask: Tensor, dim: int) -> Tensor:
    """Number of True along `dim` of a boolean matrix stored row by row, its width a multiple of 8; int64."""
    words = mask.view(torch.int64)
    if dim == 0:
        parts = [words[at : at + 255].sum(dim=0).view(torch.uint8) for at in range(0, len(words), 255)]
        return torch.stack(parts).sum(dim=0)
    parts = [words[:, at : at + 255].sum(dim=1) for at in range(0, words.shape[1], 255)]
    return torch.stack(parts, dim=1).view(torch.uint8).sum(dim=1)


def descending_keys(row: Tensor, value: Tensor) -> Tensor:
    """int64 that sort by row, then by float32 value from the largest down.

    The bits of a float32 are in order of size once those of negative numbers are flipped.
    """
    bits = value.view(torch.int32)
    ordered = torch.where(bits >= 0, bits, bits ^ 0x7FFFFFFF).to(torch.int64)
    return (row << 32) + (2**31 - 1 - ordered)
