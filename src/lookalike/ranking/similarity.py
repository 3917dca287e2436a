"""Vectors ready to be compared, block by block, and the exact similarity of single pairs.

Two numbers are kept apart. The *filter* value of a pair comes out of a float32 matrix product: fast, but its
last digits depend on block shapes, threads and device. The *exact* similarity is computed for the few pairs
where those digits could decide: products of the float32 entries, which float64 holds without rounding, added
by halving in a fixed order. It depends on the two rows alone, so every block size, number of processes and
device gives the same order, and equal rows tie exactly.

Legend: N rows, D entries a row, P pairs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lookalike.errors import ArgumentError
from lookalike.utils.validation import check_choice

SIMILARITIES = ("cosine", "dot", "euclidean")
_LARGEST_NORM = 1e15
_UNIT_ROUNDOFF = 2.0**-24
_ROWS = 512  # rows prepared at a time: small enough for the cache


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """float32 products in float32, whatever the program allows elsewhere (TF32, bfloat16, autocast)."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def halving_sum(terms_PD: Tensor) -> Tensor:
    """Sum over the last axis in one fixed order (upper half onto lower half), whatever the device."""
    width = terms_PD.shape[1]
    while width > 1:
        half = (width + 1) // 2
        folded = terms_PD[:, :half].clone() if width % 2 else terms_PD[:, :half]
        if width % 2:
            folded[:, : half - 1] += terms_PD[:, half:width]
            terms_PD = folded
        else:
            terms_PD = folded + terms_PD[:, half:width]
        width = half
    return terms_PD[:, 0]


class Vectors:
    """Rows of anybody's matrix, prepared when asked for: float32, unit length for cosine.

    Args:
        source: (N, D) floating tensor or array, memory-mapped or not; never changed.
        similarity: 'cosine' (rows are brought to unit length; a zero row is similar to nothing: 0), 'dot',
            or 'euclidean' (minus half the squared distance while ranking).
        what: how messages call it.
        device: where comparisons run.
        keep: hold the prepared rows in memory instead of preparing each block again.

    Raises:
        ArgumentError: not a matrix, not floating, or rows that are not finite or too long for float32.
    """

    def __init__(
        self, source: Any, similarity: str, *, what: str, device: torch.device, keep: bool, rows: Any = None
    ) -> None:
        check_choice("similarity", similarity, SIMILARITIES)
        if not hasattr(source, "shape") or not hasattr(source, "dtype"):
            source = np.asarray(source)
        if len(source.shape) != 2:
            raise ArgumentError(f"{what} have shape {tuple(source.shape)}; expected (N, D)")
        if not torch.is_tensor(source) and not np.issubdtype(source.dtype, np.floating):
            if not np.issubdtype(source.dtype, np.integer):
                raise ArgumentError(f"{what} have dtype {source.dtype}; expected a floating dtype")
        elif torch.is_tensor(source) and (source.is_complex() or source.dtype == torch.bool):
            raise ArgumentError(f"{what} have dtype {source.dtype}; expected a floating dtype")
        self.similarity = similarity
        self.what = what
        self.device = device
        self.dim = int(source.shape[1])
        self._source = source.detach() if torch.is_tensor(source) else source
        self._rows = None if rows is None else np.asarray(rows)
        self._kept: Tensor | None = None
        self._shift: Tensor | None = None
        self.largest_norm = self._check()
        if keep:
            self._kept = torch.empty(len(self), self.dim, device=device)
            for start in range(0, len(self), _ROWS):
                self._kept[start : start + _ROWS] = self._prepare(self._read(slice(start, start + _ROWS)))

    def __len__(self) -> int:
        return int(self._source.shape[0]) if self._rows is None else len(self._rows)

    def _read(self, which: slice | np.ndarray) -> Tensor:
        """Rows as they are in the source, on the device, in the source's precision (at least float32)."""
        if self._rows is not None:
            which = self._rows[which]
        if torch.is_tensor(self._source):
            index: Any = (
                which if isinstance(which, slice) else torch.from_numpy(which).to(self._source.device)
            )
            part = self._source[index]
        else:
            part = torch.from_numpy(np.array(self._source[which]))
        if part.dtype != torch.float64:
            part = part.to(torch.float32)
        return part.to(self.device)

    def _prepare(self, part: Tensor) -> Tensor:
        if self.similarity != "cosine":
            return part.to(torch.float32)
        part = part.to(torch.float64)
        norms = halving_sum(part * part).sqrt_()
        return (part / norms.clamp_min(1e-150)[:, None]).to(torch.float32)

    def _check(self) -> float:
        """The largest norm; refuses rows that cannot be compared, with their number and the first."""
        largest, bad, first = 0.0, 0, -1
        for start in range(0, len(self), 4096):
            part = self._read(slice(start, start + 4096))
            single = part.to(torch.float32)
            if not bool(torch.isfinite(single.sum())):  # a finite sum has finite terms
                wrong = ~torch.isfinite(single).all(dim=1)
                bad += int(wrong.sum())
                first = start + int(wrong.nonzero()[0]) if first < 0 and bool(wrong.any()) else first
            elif self.similarity != "cosine":
                largest = max(largest, float(part.to(torch.float64).norm(dim=1).max()))
        if bad:
            row = first if self._rows is None else int(self._rows[first])
            raise ArgumentError(
                f"{bad} of {len(self):,} {self.what} are not finite (NaN, infinite or beyond float32); "
                f"first: row {row}; find out what made it or leave it out"
            )
        if largest > _LARGEST_NORM:
            raise ArgumentError(
                f"{self.what} have norms up to {largest:.3g}; at most {_LARGEST_NORM:g} can be compared by "
                f"'{self.similarity}'; use similarity='cosine' or scale them down"
            )
        return 1.0 if self.similarity == "cosine" else largest

    def take(self, index: Tensor) -> Tensor:
        """Prepared rows `index` (P,) as (P, D) float32."""
        if self._kept is not None:
            return self._kept.index_select(0, index)
        return self._prepare(self._read(index.cpu().numpy()))

    def block(self, start: int, stop: int) -> Tensor:
        """Prepared rows start..stop-1."""
        if self._kept is not None:
            return self._kept[start:stop]
        return self._prepare(self._read(slice(start, stop)))

    def mean(self) -> Tensor:
        """Mean row, float32: subtracting it from both sides keeps distances and saves digits."""
        total = torch.zeros(self.dim, dtype=torch.float64, device=self.device)
        for start in range(0, len(self), 4096):
            total += self.block(start, min(start + 4096, len(self))).to(torch.float64).sum(dim=0)
        return (total / max(len(self), 1)).to(torch.float32)

    def digest_rows(self) -> np.ndarray:
        """One 64-bit number a prepared row, equal for equal rows: finds exact duplicates."""
        multipliers = np.random.default_rng(0).integers(1, 2**62, size=self.dim, dtype=np.int64) * 2 + 1
        out = np.empty(len(self), dtype=np.int64)
        for start in range(0, len(self), 4096):
            part = (self.block(start, min(start + 4096, len(self))) + 0.0).cpu().numpy()
            bits = part.view(np.int32).astype(np.int64)
            bits ^= bits >> 15
            out[start : start + len(part)] = (bits * multipliers).sum(axis=1)
        return out


class Comparison:
    """Two sides that are compared: filter operands for matrix products, exact values for pairs."""

    def __init__(self, queries: Vectors, gallery: Vectors) -> None:
        if queries.dim != gallery.dim:
            raise ArgumentError(
                f"{queries.what} have {queries.dim} entries a row, {gallery.what} {gallery.dim}; "
                "both must come from the same model"
            )
        self.queries, self.gallery = queries, gallery
        self.similarity = queries.similarity
        self._shift = gallery.mean() if self.similarity == "euclidean" else None
        dim = queries.dim
        units = dim if dim <= 16 else 4 * dim**0.5
        if self._shift is None:
            reach = queries.largest_norm * gallery.largest_norm
        else:
            shift = float(self._shift.to(torch.float64).norm())
            reach = (queries.largest_norm + gallery.largest_norm + 2 * shift) ** 2 / 2
            units += 8
        self.error = (units + 4) * _UNIT_ROUNDOFF * reach + 1e-34

    def query_operand(self, part_BD: Tensor) -> Tensor:
        """Left factor: (B, D), or (B, D + 2) for Euclidean."""
        if self._shift is None:
            return part_BD
        part_BD = part_BD - self._shift
        half = -part_BD.square().sum(dim=1, keepdim=True) / 2
        return torch.cat([part_BD, half, torch.ones_like(half)], dim=1)

    def gallery_operand(self, part_MD: Tensor) -> Tensor:
        """Right factor, not yet transposed: (M, D), or (M, D + 2) for Euclidean."""
        if self._shift is None:
            return part_MD
        part_MD = part_MD - self._shift
        half = -part_MD.square().sum(dim=1, keepdim=True) / 2
        return torch.cat([part_MD, torch.ones_like(half), half], dim=1)

    def exact(self, query_index_P: Tensor, gallery_index_P: Tensor) -> Tensor:
        """Exact similarity of pairs, (P,) float64: the dot product, or minus half the squared distance."""
        out = torch.empty(len(query_index_P), dtype=torch.float64, device=self.queries.device)
        step = max(1, min(4096, (1 << 18) // self.queries.dim))
        for start in range(0, len(out), step):
            left = self.queries.take(query_index_P[start : start + step]).to(torch.float64)
            right = self.gallery.take(gallery_index_P[start : start + step]).to(torch.float64)
            if self._shift is None:
                out[start : start + step] = halving_sum(left.mul_(right))
            else:
                out[start : start + step] = halving_sum(left.sub_(right).square_()) / -2
        return out

    def nearly_exact(self, query_index_A: Tensor, gallery_index_P: Tensor) -> Tensor:
        """All similarities of some rows, (A, P) float64, by a float64 product: off by its rounding."""
        left = self.queries.take(query_index_A).to(torch.float64)
        right = self.gallery.take(gallery_index_P).to(torch.float64)
        if self._shift is None:
            return left @ right.T
        return torch.cdist(left, right, compute_mode="donot_use_mm_for_euclid_dist").square() / -2
