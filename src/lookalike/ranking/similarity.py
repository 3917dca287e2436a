"""The similarity of queries and gallery in two precisions: float32 products as a filter, float64 to decide.

A float32 product is off by up to `Comparison.error`; pairs closer than that are compared in float64. For
cosine the float64 values are exact (see `vectors`). For dot and euclidean they are rounded, and values within
`Comparison.tolerance` count as equal.

Legend: B queries of a block, N gallery rows, M gallery rows of a block, P pairs.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from lookalike.errors import ArgumentError
from lookalike.ranking.vectors import SIMILARITIES, Vectors

__all__ = ["SIMILARITIES", "Comparison"]

_PAIRS = 1 << 18  # numbers gathered at a time for single pairs


class Comparison:
    """Queries and gallery, ready to be compared.

    Args:
        queries, gallery: the two sides; the same object for self-retrieval.
        gallery_block: gallery rows prepared at a time where they are not kept in memory.

    Attributes:
        reach: no similarity is larger in size.
        error: bound on the rounding of a float32 product. For D up to 16 no rounding exceeds it; beyond,
            it takes 4 sqrt(D) roundings in the same direction.
        tolerance: float64 values this close count as equal.
    """

    def __init__(self, queries: Vectors, gallery: Vectors, *, gallery_block: int = 8192) -> None:
        if queries.dim != gallery.dim:
            raise ArgumentError(
                f"{queries.what} have {queries.dim} dimensions, {gallery.what} {gallery.dim}; "
                "both must come from the same model"
            )
        self.queries, self.gallery, self.gallery_block = queries, gallery, gallery_block
        self.similarity, self.device = queries.similarity, gallery.device
        units = queries.dim if queries.dim <= 16 else 4 * math.sqrt(queries.dim)
        self._shift = gallery.mean() if self.similarity == "euclidean" else None
        if self._shift is None:
            self.reach = queries.largest_norm * gallery.largest_norm * (1 + 2.0**-20)
        else:
            shift = float(self._shift.to(torch.float64).norm())
            self.reach = (queries.largest_norm + gallery.largest_norm + 2 * shift) ** 2 / 2
            units += 8
        self.reach = max(self.reach, 1e-30)
        self.error = (units + 4) * 2.0**-24 * self.reach
        self.tolerance = 0.0 if self.similarity == "cosine" else 2.0**-44 * self.reach

    def product_blocks(self, queries: Tensor) -> Iterator[tuple[int, Tensor]]:
        """float32 similarities (B, M) of some queries with each block of gallery rows, and its first row.

        Euclidean similarity is minus half the squared distance.
        """
        left = self._left(self.queries.take(queries))
        for start in range(0, len(self.gallery), self.gallery_block):
            right = self._right(self.gallery.block(start, start + self.gallery_block))
            sims = torch.empty(len(left), len(right), device=self.device)
            self._multiply(left, right, sims)
            yield start, sims

    def product(self, queries: Tensor, out: Tensor) -> Tensor:
        """Similarities with the whole gallery, written into `out` (B, N), in its precision."""
        left = self._left(self.queries.take(queries).to(out.dtype))
        for start in range(0, len(self.gallery), self.gallery_block):
            right = self._right(self.gallery.block(start, start + self.gallery_block).to(out.dtype))
            self._multiply(left, right, out[:, start : start + len(right)])
        return out

    def _multiply(self, left: Tensor, right: Tensor, out: Tensor) -> None:
        """out = left @ right.T in its precision, whatever TF32, bfloat16 or autocast the program allows."""
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            if out.dtype == torch.float32 and _reduced_precision(self.device):
                out.copy_(left.to(torch.float64) @ right.to(torch.float64).T)
            else:
                torch.mm(left, right.T, out=out)

    def exact(self, queries: Tensor, gallery: Tensor) -> Tensor:
        """float64 similarities of single pairs, given by indices; `queries` is expanded to the shape of `gallery`."""
        query = queries.expand_as(gallery).reshape(-1)
        row = gallery.reshape(-1)
        out = torch.empty(len(query), dtype=torch.float64, device=self.device)
        step = max(1, _PAIRS // self.queries.dim)
        for at in range(0, len(out), step):
            left = self.queries.take(query[at : at + step]).to(torch.float64)
            right = self.gallery.take(row[at : at + step]).to(torch.float64)
            if self._shift is None:
                out[at : at + step] = left.mul_(right).sum(dim=1)
            else:
                out[at : at + step] = left.sub_(right).square_().sum(dim=1) / -2
        return out.view(gallery.shape)

    def _left(self, rows_BD: Tensor) -> Tensor:
        """Left factor: (B, D), for Euclidean (B, D + 2): x y - |x|^2 / 2 - |y|^2 / 2 = -|x - y|^2 / 2."""
        if self._shift is None:
            return rows_BD
        rows_BD = rows_BD - self._shift
        half = -rows_BD.square().sum(dim=1, keepdim=True) / 2
        return torch.cat([rows_BD, half, torch.ones_like(half)], dim=1)

    def _right(self, rows_MD: Tensor) -> Tensor:
        """Right factor, not yet transposed."""
        if self._shift is None:
            return rows_MD
        rows_MD = rows_MD - self._shift
        half = -rows_MD.square().sum(dim=1, keepdim=True) / 2
        return torch.cat([rows_MD, torch.ones_like(half), half], dim=1)


def _reduced_precision(device: torch.device) -> bool:
    """Whether the program lets float32 products round to TF32 or bfloat16.

    The setting belongs to the whole process, other threads included, so it is read, never changed.
    """
    backend = torch.backends.cuda if device.type == "cuda" else torch.backends.mkldnn
    precision = getattr(getattr(backend, "matmul", None), "fp32_precision", None)
    if precision is None:  # torch below 2.9
        return torch.get_float32_matmul_precision() != "highest"
    return precision not in ("none", "ieee")
