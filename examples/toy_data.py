"""Vectors around class centers, which the examples train on in place of images."""

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

INPUTS = 16


def toy_data(classes: int, per_class: int, seed: int = 0) -> TensorDataset:
    """Inputs (N, INPUTS) and labels (N,) of `classes` classes of `per_class` samples each."""
    generator = torch.Generator().manual_seed(seed)
    centers: Tensor = torch.randn(classes, INPUTS, generator=generator)
    labels = torch.arange(classes).repeat_interleave(per_class)
    noise = torch.randn(len(labels), INPUTS, generator=generator)
    return TensorDataset(centers[labels] + 0.7 * noise, labels)
