"""Random starts of proxies, by name.

Only the direction of a proxy enters a loss, but its length decides how far one optimizer step turns it.
"""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Generator, Tensor


def normal(std: float, rows: int, dim: int, generator: Generator | None) -> Tensor:
    """Normal numbers (rows, dim) of a standard deviation."""
    device = generator.device if generator else "cpu"
    return torch.randn(rows, dim, generator=generator, device=device) * std


def _uniform(bound: float, rows: int, dim: int, generator: Generator | None) -> Tensor:
    device = generator.device if generator else "cpu"
    return (torch.rand(rows, dim, generator=generator, device=device) * 2 - 1) * bound


PROXY_INITS: dict[str, Callable[[int, int, int, Generator | None], Tensor]] = {
    "randn": lambda rows, total, dim, g: normal(1, rows, dim, g),
    "randn/8": lambda rows, total, dim, g: normal(1 / 8, rows, dim, g),  # ProxyNCA and ProxyNCA++ code
    "kaiming": lambda rows, total, dim, g: normal(math.sqrt(2 / total), rows, dim, g),  # Proxy-Anchor code
    "xavier": lambda rows, total, dim, g: normal(math.sqrt(2 / (total + dim)), rows, dim, g),
    "uniform": lambda rows, total, dim, g: _uniform(1 / math.sqrt(dim), rows, dim, g),  # NormSoftmax code
    "kaiming_uniform": lambda rows, total, dim, g: _uniform(1 / math.sqrt(total), rows, dim, g),  # SoftTriple
}
"""(rows to draw, rows of the whole table, D, generator) -> (rows, D)."""

ROWS_PER_DRAW = 2**16


def draw_rows(
    draw: Callable[[int], Tensor], total: int, first: int, count: int
) -> Iterator[tuple[slice, Tensor]]:
    """Rows first..first+count-1 of a random table of `total` rows, in blocks: (place among them, rows).

    All rows are drawn and the others dropped, so that a table does not depend on how it is divided.
    """
    for at in range(0, total, ROWS_PER_DRAW):
        block = draw(min(ROWS_PER_DRAW, total - at))
        low, high = max(at, first), min(at + len(block), first + count)
        if low < high:
            yield slice(low - first, high - first), block[low - at : high - at]
