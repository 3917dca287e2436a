"""From feature maps to one vector per image: the pooling, and the norm that follows it.

The papers differ here: Proxy-Anchor adds average and maximum, ProxyNCA++ takes the maximum (and studies k-max),
ProxyGML the average. All are pure functions of the maps.

Shapes: B images, F channels, H x W positions.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from lookalike.errors import ArgumentError
from lookalike.utils.validation import check_choice, look_up


def average(maps_BFHW: Tensor) -> Tensor:
    """Mean over positions, (B, F)."""
    return maps_BFHW.mean(dim=(2, 3))


def maximum(maps_BFHW: Tensor) -> Tensor:
    """Largest value over positions, (B, F)."""
    return maps_BFHW.amax(dim=(2, 3))


def k_max(maps_BFHW: Tensor, k: int) -> Tensor:
    """Mean of the k largest values of each channel, (B, F): the maximum for k = 1, the average for k = H W.

    Source: ProxyNCA++, Figure 4.

    Raises:
        ArgumentError: k is not in 1..H W.
    """
    positions = maps_BFHW.shape[2] * maps_BFHW.shape[3]
    if not 1 <= k <= positions:
        raise ArgumentError(
            f"k-max pooling with k={k} over {maps_BFHW.shape[2]} x {maps_BFHW.shape[3]} positions; "
            f"k must lie in 1..{positions} (larger images have more positions)"
        )
    return maps_BFHW.flatten(2).topk(k, dim=2).values.mean(dim=2)


def average_and_maximum(maps_BFHW: Tensor) -> Tensor:
    """`average` and `maximum` one after the other, (B, 2 F) float32: every pooling but k_max is a function of them."""
    maps_BFHW = maps_BFHW.float()
    return torch.cat([average(maps_BFHW), maximum(maps_BFHW)], dim=1)


def from_average_and_maximum(both_BG: Tensor, pooling: str) -> Tensor:
    """The named pooling computed from `average_and_maximum`."""
    average_BF, maximum_BF = both_BG.chunk(2, dim=1)
    return look_up(FROM_BOTH, pooling, "pooling")(average_BF, maximum_BF)


FROM_BOTH: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "average": lambda average_BF, maximum_BF: average_BF,
    "maximum": lambda average_BF, maximum_BF: maximum_BF,
    "average_plus_maximum": torch.add,  # as in Proxy-Anchor's released code
    "catavgmax": lambda average_BF, maximum_BF: torch.cat([average_BF, maximum_BF], dim=1),  # timm's name
    "concat": lambda average_BF, maximum_BF: functional.normalize(
        torch.stack([average_BF, maximum_BF], dim=1), dim=2
    ).flatten(1),  # catavgmax of two unit vectors
}
POOLING_NAMES = (*FROM_BOTH, "k_max")
NORM_NAMES = ("none", "layer_norm", "unit")


def pool(maps_BFHW: Tensor, pooling: str, *, k: int = 1) -> Tensor:
    """The named pooling of feature maps, computed in float32.

    Args:
        maps_BFHW: floating, (B, F, H, W).
        pooling: one of `POOLING_NAMES`.
        k: how many positions `k_max` averages; the others ignore it.
    """
    maps_BFHW = maps_BFHW.float()
    if pooling == "k_max":
        return k_max(maps_BFHW, k)
    return look_up(FROM_BOTH, pooling, "pooling")(average(maps_BFHW), maximum(maps_BFHW))


def pooled_width(channels: int, pooling: str) -> int:
    """Width of the pooled vector for a backbone of `channels` channels."""
    check_choice("pooling", pooling, POOLING_NAMES)
    return 2 * channels if pooling in ("catavgmax", "concat") else channels


def normed(vectors_BF: Tensor, norm: str) -> Tensor:
    """The pooled vectors after `none`, `layer_norm` (mean 0, variance 1, no scale or shift) or `unit`."""
    check_choice("norm", norm, NORM_NAMES)
    if norm == "layer_norm":
        return functional.layer_norm(vectors_BF, vectors_BF.shape[1:])
    return functional.normalize(vectors_BF, dim=1) if norm == "unit" else vectors_BF
