"""Projections that need no images: the pooled vector itself, and random ones. `whitening` computes others."""

from typing import NamedTuple

import torch
from torch import Tensor

from lookalike.errors import ArgumentError


class Linear(NamedTuple):
    """`weight` (D, F) and `bias` (D,) of a projection, float32."""

    weight: Tensor
    bias: Tensor


def identity(features: int, dim: int) -> Linear:
    """The embedding is the pooled vector itself."""
    if dim != features:
        raise ArgumentError(
            f"start 'identity' needs embedding_dim = {features}, the width of the pooled vector, not {dim}; "
            "or start from 'pca' or 'whitened'"
        )
    return Linear(torch.eye(dim), torch.zeros(dim))


def random(features: int, dim: int, generator: torch.Generator, *, init: str = "uniform") -> Linear:
    """A random projection.

    Args:
        features: width of the pooled vector.
        dim: width of the embedding.
        generator: the only source of randomness.
        init: "uniform", weight and bias in +-1/sqrt(features), as torch initializes a linear layer; or "kaiming",
            normal with standard deviation sqrt(2 / dim) (fan-out) and no bias, as in Proxy-Anchor's code.
    """
    if init == "uniform":
        bound = features**-0.5
        weight = (torch.rand(dim, features, generator=generator) * 2 - 1) * bound
        return Linear(weight, (torch.rand(dim, generator=generator) * 2 - 1) * bound)
    if init == "kaiming":
        weight = torch.randn(dim, features, generator=generator) * (2 / dim) ** 0.5
        return Linear(weight, torch.zeros(dim))
    raise ArgumentError(f"init is '{init}' (one of: uniform, kaiming)")
