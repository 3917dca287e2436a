"""Rows of a user's matrix, checked and prepared for comparison block by block.

For cosine a prepared row has unit length and its entries are multiples of 2^-26. Products of two such entries
are multiples of 2^-52 and their sums stay below 2, so float64 adds them without any rounding: the cosine of
two prepared rows is the same number in every order of summation, block size, thread count and device.

Legend: N rows, D dimensions, P pairs.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lookalike.errors import ArgumentError
from lookalike.utils.validation import check_choice

SIMILARITIES = ("cosine", "dot", "euclidean")
_GRID = 2.0**26
_LARGEST_NORM = 1e15
_ROWS = 512  # rows prepared at a time: small enough for the processor's cache


class Vectors:
    """(N, D) rows in float32, of unit length for cosine.

    Args:
        source: floating or integer tensor or array, memory-mapped or not; never changed.
        similarity: 'cosine' (a row of zeros has cosine 0 with everything), 'dot' or 'euclidean'.
        what: how error messages call the rows.
        device: where comparisons run.
        keep: hold all prepared rows in memory; otherwise each block is prepared when it is needed.
        rows: positions in `source`; all by default.

    Raises:
        ArgumentError: not a matrix of numbers, or rows that are not finite or too long for float32.
    """

    def __init__(
        self,
        source: Any,
        similarity: str,
        *,
        what: str,
        device: torch.device,
        keep: bool = True,
        rows: np.ndarray | None = None,
    ) -> None:
        check_choice("similarity", similarity, SIMILARITIES)
        self._source = _numbers(source, what)
        self.similarity, self.what, self.device = similarity, what, device
        self.dim = int(self._source.shape[1])
        self._rows = rows
        self._kept: Tensor | None = None
        self.largest_norm = self._check()
        if keep:
            kept = torch.empty(len(self), self.dim, device=device)
            for start in range(0, len(self), _ROWS):
                kept[start : start + _ROWS] = self.block(start, start + _ROWS)
            self._kept = kept

    def __len__(self) -> int:
        return int(self._source.shape[0]) if self._rows is None else len(self._rows)

    def block(self, start: int, stop: int) -> Tensor:
        """Prepared rows start..stop-1, fewer at the end."""
        if self._kept is not None:
            return self._kept[start:stop]
        return self._prepare(self._read(slice(start, stop)))

    def take(self, index_P: Tensor) -> Tensor:
        """Prepared rows of any shape of indices, one more dimension of size D at the end."""
        if self._kept is not None:
            return self._kept[index_P]
        rows = self._prepare(self._read(index_P.reshape(-1).cpu().numpy()))
        return rows.view(*index_P.shape, self.dim)

    def mean(self) -> Tensor:
        """Mean row, float32."""
        total = torch.zeros(self.dim, dtype=torch.float64, device=self.device)
        for start in range(0, len(self), _ROWS):
            total += self.block(start, start + _ROWS).to(torch.float64).sum(dim=0)
        return (total / max(len(self), 1)).to(torch.float32)

    def count_copies(self) -> int:
        """Number of rows that are exact copies of an earlier row."""
        return len(self) - len(set(self._hashes()))

    def count_shared(self, other: "Vectors") -> int:
        """Number of rows that have an exact copy in `other`."""
        known = set(other._hashes())
        return sum(one in known for one in self._hashes())

    def _hashes(self) -> Iterator[int]:
        for start in range(0, len(self), _ROWS):
            part = (self.block(start, start + _ROWS) + 0.0).cpu().numpy()  # -0.0 becomes 0.0
            yield from (hash(row.tobytes()) for row in part)

    def _read(self, which: slice | np.ndarray) -> Tensor:
        """Rows of the source, on the device, in its own precision but at least float32."""
        if self._rows is not None:
            which = self._rows[which]
        if torch.is_tensor(self._source):
            index: Any = which
            if not isinstance(which, slice):
                index = torch.from_numpy(which).to(self._source.device)
            part = self._source[index]
        else:
            array = self._source[which]
            part = torch.from_numpy(array.astype(np.float64 if array.dtype.itemsize >= 8 else np.float32))
        return part.to(self.device, torch.float64 if part.dtype == torch.float64 else torch.float32)

    def _prepare(self, part: Tensor) -> Tensor:
        if self.similarity != "cosine":
            return part.to(torch.float32)
        part = part.to(torch.float64)
        unit = part / _sum_in_halves(part * part).sqrt().clamp_min(1e-150)[:, None]
        return unit.mul_(_GRID).round_().div_(_GRID).to(torch.float32)

    def _check(self) -> float:
        """The largest norm, 1 for cosine; refuses rows that cannot be compared, with their number."""
        largest = 0.0
        bad: list[int] = []
        for start in range(0, len(self), 8 * _ROWS):
            part = self._read(slice(start, start + 8 * _ROWS))
            single = part.to(torch.float32)
            if not bool(torch.isfinite(single.sum())):  # a finite sum has finite terms
                wrong = (~torch.isfinite(single).all(dim=1)).nonzero()[:, 0].cpu().numpy() + start
                bad.extend(wrong if self._rows is None else self._rows[wrong])
            elif self.similarity != "cosine":
                largest = max(largest, float(part.to(torch.float64).norm(dim=1).max()))
        if bad:
            raise ArgumentError(
                f"{len(bad)} of {len(self):,} {self.what} are not finite (NaN, infinite or beyond float32); "
                f"first: row {bad[0]}; remove these rows or repair what computed them"
            )
        if largest > _LARGEST_NORM:
            raise ArgumentError(
                f"{self.what} have norms up to {largest:.3g}; '{self.similarity}' takes at most "
                f"{_LARGEST_NORM:g}; use similarity='cosine' or scale them down"
            )
        return 1.0 if self.similarity == "cosine" else largest


def comparison_device(gallery: Any, device: str | torch.device | None) -> torch.device:
    """Where rows are compared: on `device`, or else where the gallery is; not on Apple's GPU, which has no float64."""
    if device is None:
        device = gallery.device if isinstance(gallery, torch.Tensor | Vectors) else "cpu"
    chosen = torch.device(device)
    return torch.device("cpu") if chosen.type == "mps" else chosen


def _numbers(source: Any, what: str) -> Any:
    """`source` as a tensor or array of numbers with two dimensions."""
    if torch.is_tensor(source):
        source = source.detach()
        numeric = not (source.is_complex() or source.dtype == torch.bool)
    else:
        source = source if hasattr(source, "dtype") and hasattr(source, "shape") else np.asarray(source)
        numeric = np.issubdtype(source.dtype, np.floating) or np.issubdtype(source.dtype, np.integer)
    if not numeric:
        raise ArgumentError(f"{what} have dtype {source.dtype}; expected a floating dtype")
    if len(source.shape) != 2 or 0 in source.shape:
        raise ArgumentError(
            f"{what} have shape {tuple(source.shape)}; expected a matrix (N, D) with at least one row and column"
        )
    return source


def _sum_in_halves(terms: Tensor) -> Tensor:
    """Sum over the last axis in one fixed order, which torch.sum does not promise."""
    width = 1 << (terms.shape[-1] - 1).bit_length()
    terms = torch.nn.functional.pad(terms, (0, width - terms.shape[-1]))
    while width > 1:
        width //= 2
        terms = terms[..., :width] + terms[..., width:]
    return terms[..., 0]
