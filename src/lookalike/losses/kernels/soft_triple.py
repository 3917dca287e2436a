"""SoftTriple over chunks of classes: the softmax passes with several centers a class, and their spread."""

from torch import Tensor

from lookalike.losses.kernels.autograd import Compute
from lookalike.losses.kernels.centers import soft_maximum_
from lookalike.losses.kernels.common import WHOLE, Part
from lookalike.losses.kernels.softmax import Softmax, softmax_in_chunks


def soft_triple_in_chunks(
    labels_B: Tensor,
    *,
    centers_per_class: int,
    scale: float,
    gamma: float,
    margin: float,
    center_weight: float,
    part: Part = WHOLE,
) -> Compute:
    """`SoftTriple`, with the settings there; the rest as in `softmax_in_chunks`."""
    settings = Softmax(
        scale=scale,
        own_margin=margin,
        pool_=soft_maximum_(gamma),
        proxies_per_class=centers_per_class,
        center_weight=center_weight if centers_per_class > 1 else 0.0,
    )
    return softmax_in_chunks(labels_B, settings, part)
