"""Checks of a batch of embeddings and labels, with the first bad sample in the message."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.errors import ArgumentError, NotFiniteError


def as_labels(labels: NDArray[Any]) -> Tensor:
    """NumPy labels of any integer dtype and byte order as a tensor (int64, or uint64 if they are)."""
    if labels.dtype.kind not in "iu":
        raise ArgumentError(f"labels have dtype {labels.dtype}; expected integers (labels.astype(int))")
    wide = np.uint64 if labels.dtype.kind == "u" and labels.dtype.itemsize == 8 else np.int64
    return torch.from_numpy(labels.astype(wide))


def check_batch(embeddings: Tensor, labels: Tensor, *, num_classes: int, embedding_dim: int) -> None:
    """Refuses a batch that a loss cannot read, naming the first bad sample.

    Args:
        embeddings: floating, shape (B, embedding_dim), B at least 1, finite.
        labels: integer, shape (B,), each in 0..num_classes-1.

    On an accelerator values are not read, which would wait for the device at each step; shapes and dtypes
    are. Labels that come from a `LabeledImages` are in range.

    Raises:
        ArgumentError: what is wrong, at which sample, and the fix.
    """
    if not isinstance(embeddings, Tensor) or not isinstance(labels, Tensor):
        raise ArgumentError(
            f"a loss takes two tensors, got {type(embeddings).__name__} and {type(labels).__name__}; "
            "convert with torch.as_tensor"
        )
    if embeddings.ndim != 2 or embeddings.shape[1] != embedding_dim or embeddings.shape[0] == 0:
        raise ArgumentError(
            f"embeddings have shape {tuple(embeddings.shape)}; expected (B, {embedding_dim}) with B at least 1"
        )
    if not embeddings.is_floating_point():
        raise ArgumentError(f"embeddings have dtype {embeddings.dtype}; expected a floating dtype")
    if labels.ndim != 1 or len(labels) != len(embeddings):
        raise ArgumentError(
            f"labels have shape {tuple(labels.shape)}; expected ({len(embeddings)},), one label per embedding"
        )
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ArgumentError(f"labels have dtype {labels.dtype}; expected integers (labels.long())")
    if labels.device.type == "cpu":
        _check_label_range(labels, num_classes)
    if embeddings.device.type == "cpu":
        _check_finite(embeddings.detach())


def _check_label_range(labels: Tensor, num_classes: int) -> None:
    """Refuses labels outside 0..num_classes-1."""
    signed = labels.long()  # torch cannot compare unsigned integers; uint64 above 2^63 becomes negative
    lowest, highest = signed.aminmax()
    if int(lowest) < 0 or int(highest) >= num_classes:
        first = int(((signed < 0) | (signed >= num_classes)).nonzero()[0])
        raise ArgumentError(
            f"label {labels[first].numpy().item()} is not in 0..{num_classes - 1} ({num_classes} classes); first bad "
            f"sample index {first}; renumber the labels to 0..{num_classes - 1} "
            "(numpy.unique(labels, return_inverse=True)[1], of all of them) or raise num_classes"
        )


def _check_finite(embeddings: Tensor) -> None:
    """Refuses NaN and infinity."""
    if math.isfinite(float(embeddings.sum())):
        return
    bad = ~torch.isfinite(embeddings).all(dim=1)  # takes 20 times as long, and a finite sum may overflow
    samples: list[int] = bad.nonzero()[:, 0].tolist()
    if samples:
        raise NotFiniteError(
            f"embeddings are not finite in {len(samples)} of {len(embeddings)} samples; first bad sample "
            f"index {samples[0]}; look at its image or lower the learning rate",
            samples,
        )
