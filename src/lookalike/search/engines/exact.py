"""The exact engine: every query is compared with every vector, by one product and one top-k per block.

It needs nothing but this package, never goes wrong, and is the truth that the others are measured against.
Vectors stay memory-mapped: what is compared is read once, and nothing is prepared again between queries.
"""

import numpy as np
import torch
from torch import Tensor

from lookalike.search.engines.base import Floats, Ints, Neighbors
from lookalike.search.engines.on_files import FileEngine
from lookalike.search.engines.vector_file import DELETED, VectorFile

_SPARE = 8
"""Candidates kept beyond k, so that ties at the end are ordered by id."""
_BLOCK_VALUES = 1 << 22
_QUERY_BLOCK = 256
_GATHER_BELOW = 8
"""Rows are picked out one by one when fewer than one in so many is allowed."""


class ExactEngine(FileEngine):
    """Compares with everything; ties in the order in which vectors were added."""

    def search(self, queries_QD: Floats, k: int, *, allowed: Ints | None = None) -> Neighbors:
        """See `Engine`."""
        return search_file(self._file, queries_QD, k, usable_rows(self._file, allowed))

    def save(self) -> None:
        """Nothing to build."""

    def close(self) -> None:
        """Nothing to give back."""


def usable_rows(file: VectorFile, allowed: Ints | None) -> Ints | None:
    """Rows that may be found, ascending; None for all of them."""
    if allowed is None and file.live == len(file):
        return None
    live = file.row_ids != DELETED
    return np.flatnonzero(live if allowed is None else live & np.isin(file.row_ids, allowed))


def search_file(
    file: VectorFile, queries_QD: Floats, k: int, rows: Ints | None, *, block: int | None = None
) -> Neighbors:
    """The `k` vectors most similar to each query among `rows` (None: all); see `search_rows`."""
    at, similarities = search_rows(file, queries_QD, k, rows, block=block)
    return Neighbors(file.row_ids[at], similarities)


def search_rows(
    file: VectorFile, queries_QD: Floats, k: int, rows: Ints | None, *, block: int | None = None
) -> tuple[Ints, Floats]:
    """Row numbers and similarities of the `k` most similar vectors, compared in blocks; ties in order of rows.

    Args:
        block: rows compared at a time; any size gives the same result.
    """
    k = min(k, len(file) if rows is None else len(rows))
    found = np.empty((len(queries_QD), k), np.int64)
    similarities = np.empty((len(queries_QD), k), np.float32)
    for start in range(0, len(queries_QD) if k else 0, _QUERY_BLOCK):
        stop = start + _QUERY_BLOCK
        queries = torch.from_numpy(np.array(queries_QD[start:stop], np.float32))
        values, at = _top_rows(file.matrix(), queries, k + _SPARE, rows, block)
        file.check_numbers(values.numpy())
        cosines = values.numpy().clip(-1, 1)
        order = np.lexsort((at.numpy(), -cosines), axis=1)[:, :k]
        found[start:stop] = np.take_along_axis(at.numpy(), order, axis=1)
        similarities[start:stop] = np.take_along_axis(cosines, order, axis=1)
    return found, similarities


def _top_rows(
    matrix: Tensor, queries: Tensor, k: int, rows: Ints | None, block: int | None
) -> tuple[Tensor, Tensor]:
    """Values and row numbers (Q, at most k) of the largest products, in no order."""
    count = len(matrix)
    gather = rows is not None and len(rows) * _GATHER_BELOW < count
    picked = torch.from_numpy(rows) if rows is not None else None
    masked: Tensor | None = None
    if picked is not None and not gather:
        masked = torch.full((count,), -torch.inf)
        masked[picked] = 0
    total = len(picked) if picked is not None and gather else count
    size = block or max(4096, _BLOCK_VALUES // len(queries))
    parts: list[tuple[Tensor, Tensor]] = []
    for start in range(0, total, size):
        at = slice(start, min(start + size, total))
        some = matrix[picked[at]] if picked is not None and gather else matrix[at]
        values = queries @ some.T
        if masked is not None:
            values += masked[at]
        top, where = values.topk(min(k, values.shape[1]), dim=1, sorted=False)
        parts.append((top, picked[at][where] if picked is not None and gather else where + start))
    values, at_rows = (torch.cat(each, dim=1) for each in zip(*parts, strict=True))
    if values.shape[1] > k:
        values, keep = values.topk(k, dim=1, sorted=False)
        at_rows = at_rows.gather(1, keep)
    return values, at_rows
