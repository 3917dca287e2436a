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


def average_plus_maximum(maps_BFHW: Tensor) -> Tensor:
    """Sum of `average` and `maximum`, (B, F): what Proxy-Anchor's released code pools with."""
    return average(maps_BFHW) + maximum(maps_BFHW)


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


def catavgmax(maps_BFHW: Tensor) -> Tensor:
    """`average` and `maximum` one after the other, (B, 2 F); timm's pooling of this name."""
    return torch.cat([average(maps_BFHW), maximum(maps_BFHW)], dim=1)


def concat(maps_BFHW: Tensor) -> Tensor:
    """`average` and `maximum`, each scaled to unit length, one after the other, (B, 2 F)."""
    return _unit_and_joined(average(maps_BFHW), maximum(maps_BFHW))


def _unit_and_joined(average_BF: Tensor, maximum_BF: Tensor) -> Tensor:
    return functional.normalize(torch.stack([average_BF, maximum_BF], dim=1), dim=2).flatten(1)


def average_and_maximum(maps_BFHW: Tensor) -> Tensor:
    """`catavgmax` in float32, from which every pooling but k_max can be computed."""
    return catavgmax(maps_BFHW.float())


def from_average_and_maximum(both_BG: Tensor, pooling: str) -> Tensor:
    """The named pooling computed from `average_and_maximum`; equal to `pool` of the maps."""
    average_BF, maximum_BF = both_BG.chunk(2, dim=1)
    return look_up(FROM_BOTH, pooling, "pooling of average and maximum")(average_BF, maximum_BF)


POOLINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "average": average,
    "maximum": maximum,
    "average_plus_maximum": average_plus_maximum,
    "catavgmax": catavgmax,
    "concat": concat,
}
FROM_BOTH: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "average": lambda average_BF, maximum_BF: average_BF,
    "maximum": lambda average_BF, maximum_BF: maximum_BF,
    "average_plus_maximum": torch.add,
    "catavgmax": lambda average_BF, maximum_BF: torch.cat([average_BF, maximum_BF], dim=1),
    "concat": _unit_and_joined,
}
POOLING_NAMES = (*POOLINGS, "k_max")
NORM_NAMES = ("none", "layer_norm", "unit")


def pool(maps_BFHW: Tensor, pooling: str, *, k: int = 1) -> Tensor:
    """The named pooling of feature maps, computed in float32.

    Args:
        maps_BFHW: floating, (B, F, H, W).
        pooling: one of `POOLING_NAMES`.
        k: how many positions `k_max` averages; the others ignore it.
    """
    maps_BFHW = maps_BFHW.float()
    return k_max(maps_BFHW, k) if pooling == "k_max" else look_up(POOLINGS, pooling, "pooling")(maps_BFHW)


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
