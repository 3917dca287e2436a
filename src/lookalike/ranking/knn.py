"""The k nearest gallery rows of every query, exactly, in bounded memory.

A block of float32 similarities keeps a few candidates more than asked; whatever lies closer to the k-th than
the rounding of the product is compared exactly, so the answer does not depend on block sizes or the device.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lookalike.errors import ArgumentError
from lookalike.ranking.similarity import Comparison, Vectors, full_precision
from lookalike.utils.validation import check_at_least

_SPARE = 8


def nearest(
    queries: Any,
    gallery: Any,
    k: int,
    *,
    self_index: Any = None,
    similarity: str = "cosine",
    query_block: int = 1024,
    gallery_block: int = 8192,
    device: str | torch.device | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The `k` most similar gallery rows of each query, most similar first, ties in order of index.

    Args:
        queries: (Q, D) floating tensor or array (memory-mapped is fine).
        gallery: (N, D), same D; give the same object as `queries` and `self_index` for self-retrieval.
        k: how many; clipped to what a query can have (N, or N - 1 with `self_index`).
        self_index: (Q,) the gallery position of each query's own row, which is never returned; -1 for none.
        similarity: 'cosine', 'dot' or 'euclidean'.
        query_block, gallery_block: rows compared at a time; any size gives the same result.
        device: where to compare; by default where the gallery is.

    Returns:
        indices (Q, k') int64 and similarities (Q, k') float32: the cosine, the dot product, or minus the
        Euclidean distance. k' is the clipped k.

    Raises:
        ArgumentError: shapes that do not fit, k below 1, an empty gallery, rows that are not finite.
    """
    check_at_least("k", k, 1)
    check_at_least("query_block", query_block, 1)
    check_at_least("gallery_block", gallery_block, 1)
    where = _device(gallery, device)
    same = queries is gallery
    right = Vectors(gallery, similarity, what="gallery embeddings", device=where, keep=_fits(gallery))
    left = (
        right
        if same
        else Vectors(queries, similarity, what="query embeddings", device=where, keep=_fits(queries))
    )
    own = None if self_index is None else torch.as_tensor(np.asarray(self_index), dtype=torch.int64)
    if own is not None and own.shape != (len(left),):
        raise ArgumentError(f"self_index has shape {tuple(own.shape)}; expected ({len(left)},)")
    available = len(right) - (0 if own is None or not bool((own >= 0).any()) else 1)
    if available < 1:
        raise ArgumentError(f"the gallery has {len(right)} rows, none of which a query may find")
    k = min(k, available)
    comparison = Comparison(left, right)
    indices = np.empty((len(left), k), dtype=np.int64)
    values = np.empty((len(left), k), dtype=np.float32)
    for start in range(0, len(left), query_block):
        rows = torch.arange(start, min(start + query_block, len(left)), device=where)
        mine = None if own is None else own[start : start + query_block].to(where)
        with full_precision(where):
            found, similar = _block(comparison, rows, mine, k, gallery_block)
        indices[start : start + query_block] = found.cpu().numpy()
        if similarity == "euclidean":
            similar = -(similar * -2).clamp_min(0).sqrt()
        values[start : start + query_block] = similar.to(torch.float32).cpu().numpy()
    return indices, values


def _device(gallery: Any, device: str | torch.device | None) -> torch.device:
    if device is not None:
        return torch.device(device)
    return gallery.device if torch.is_tensor(gallery) else torch.device("cpu")


def _fits(matrix: Any, bytes_allowed: int = 1 << 29) -> bool:
    shape = getattr(matrix, "shape", (0, 0))
    return len(shape) == 2 and shape[0] * shape[1] * 4 <= bytes_allowed


def _sims(comparison: Comparison, left: Tensor, start: int, stop: int, own: Tensor | None) -> Tensor:
    """Filter values of a block of queries against gallery rows start..stop-1; own entries are -inf."""
    sims = left @ comparison.gallery_operand(comparison.gallery.block(start, stop)).T
    if own is not None:
        inside = ((own >= start) & (own < stop)).nonzero()[:, 0]
        sims[inside, own[inside] - start] = -torch.inf
    return sims


def _block(
    comparison: Comparison, rows: Tensor, own: Tensor | None, k: int, gallery_block: int
) -> tuple[Tensor, Tensor]:
    """Indices and exact similarities (B, k) of the queries `rows`."""
    count = len(comparison.gallery)
    left = comparison.query_operand(comparison.queries.block(int(rows[0]), int(rows[-1]) + 1))
    wanted = min(k + _SPARE, count)
    best = torch.full((len(rows), 0), 0.0, device=rows.device)
    index = torch.zeros((len(rows), 0), dtype=torch.int64, device=rows.device)
    for start in range(0, count, gallery_block):
        stop = min(start + gallery_block, count)
        sims = _sims(comparison, left, start, stop, own)
        top, where = sims.topk(min(wanted, stop - start), dim=1, sorted=False)
        best, index = torch.cat([best, top], dim=1), torch.cat([index, where + start], dim=1)
        if best.shape[1] > wanted:
            best, keep = best.topk(wanted, dim=1)
            index = index.gather(1, keep)
    best, keep = best.sort(dim=1, descending=True)
    index = index.gather(1, keep)
    values = _exact(comparison, rows, index)
    values[best == -torch.inf] = -torch.inf
    found, similar = _ordered(index, values, k)
    if wanted < count:
        # a row left out has a filter value up to best[:, -1], hence an exact one up to that plus the error
        open_rows = (best[:, -1].to(torch.float64) + comparison.error >= similar[:, -1]).nonzero()[:, 0]
        for row in open_rows.tolist():
            found[row], similar[row] = _widened(
                comparison, rows, own, row, float(similar[row, -1]), k, gallery_block
            )
    return found, similar


def _exact(comparison: Comparison, rows: Tensor, index_BK: Tensor) -> Tensor:
    wide = rows[:, None].expand_as(index_BK).reshape(-1)
    return comparison.exact(wide, index_BK.reshape(-1)).reshape(index_BK.shape)


def _ordered(index_BK: Tensor, values_BK: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The first k by (higher value, lower index)."""
    by_index = index_BK.argsort(dim=1)
    index_BK, values_BK = index_BK.gather(1, by_index), values_BK.gather(1, by_index)
    order = values_BK.sort(dim=1, descending=True, stable=True).indices[:, :k]
    return index_BK.gather(1, order), values_BK.gather(1, order)


def _widened(
    comparison: Comparison, rows: Tensor, own: Tensor | None, row: int, bar: float, k: int, gallery_block: int
) -> tuple[Tensor, Tensor]:
    """One query again, with every gallery row whose filter value could still reach the k-th (ties)."""
    left = comparison.query_operand(comparison.queries.take(rows[row : row + 1]))
    mine = None if own is None else own[row : row + 1]
    index = torch.zeros(0, dtype=torch.int64, device=rows.device)
    values = torch.zeros(0, dtype=torch.float64, device=rows.device)
    for start in range(0, len(comparison.gallery), gallery_block):
        sims = _sims(comparison, left, start, min(start + gallery_block, len(comparison.gallery)), mine)[0]
        maybe = (sims.to(torch.float64) >= bar - comparison.error).nonzero()[:, 0] + start
        index = torch.cat([index, maybe])
        values = torch.cat([values, comparison.exact(rows[row].expand(len(maybe)), maybe)])
        ordered = _ordered(index[None], values[None], k)
        index, values = ordered[0][0], ordered[1][0]
    return index, values
