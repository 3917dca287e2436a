"""The k nearest gallery rows of each query, exactly, in bounded memory.

A block of float32 similarities keeps a few candidates more than k, which float64 puts in order. Where a row
that was left out may still be as near as the k-th, the whole row is compared in float64.

Legend: B queries of a block, N gallery rows, K candidates.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lookalike.errors import ArgumentError
from lookalike.ranking.similarity import Comparison
from lookalike.ranking.vectors import Vectors, comparison_device
from lookalike.utils.validation import check_at_least

_SPARE = 8
_CHUNK = 1 << 22  # entries of float64 rows at a time


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
        gallery: (N, D), same D; or `Vectors`, prepared once for many calls. Give the same object as `queries`
            together with `self_index` for self-retrieval.
        k: rows per query; clipped to what a query can have (N, or N - 1 with `self_index`).
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
    right = _prepare(gallery, "gallery embeddings", similarity, comparison_device(gallery, device))
    left = (
        right if queries is gallery else _prepare(queries, "query embeddings", right.similarity, right.device)
    )
    own = np.full(len(left), -1) if self_index is None else np.asarray(self_index, dtype=np.int64)
    if own.shape != (len(left),):
        raise ArgumentError(f"self_index has shape {own.shape}; expected ({len(left)},)")
    available = len(right) - int((own >= 0).any())
    if available < 1:
        raise ArgumentError(f"the gallery has {len(right)} rows, none of which a query may retrieve")
    k = min(k, available)
    comparison = Comparison(left, right, gallery_block=gallery_block)
    indices = np.empty((len(left), k), dtype=np.int64)
    values = np.empty((len(left), k), dtype=np.float32)
    for start in range(0, len(left), query_block):
        block = slice(start, min(start + query_block, len(left)))
        rows = torch.arange(block.start, block.stop, device=right.device)
        found, similar = _search_block(comparison, rows, torch.from_numpy(own[block]).to(right.device), k)
        if right.similarity == "euclidean":
            similar = -(similar * -2).clamp_min(0).sqrt()
        elif right.similarity == "cosine":
            similar = similar.clamp(-1, 1)
        indices[block], values[block] = found.cpu().numpy(), similar.to(torch.float32).cpu().numpy()
    return indices, values


def _prepare(matrix: Any, what: str, similarity: str, device: torch.device) -> Vectors:
    if isinstance(matrix, Vectors):
        return matrix
    shape = getattr(matrix, "shape", (0, 0))
    keep = len(shape) == 2 and shape[0] * shape[1] * 4 <= 1 << 29
    return Vectors(matrix, similarity, what=what, device=device, keep=keep)


def _search_block(comparison: Comparison, rows: Tensor, own: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Gallery rows and float64 similarities (B, k) of the queries `rows`."""
    size = len(comparison.gallery)
    wanted = min(k + _SPARE, size)
    best = torch.full((len(rows), 0), 0.0, device=rows.device)
    index = torch.zeros((len(rows), 0), dtype=torch.int64, device=rows.device)
    for start, sims in comparison.product_blocks(rows):
        _hide_own(sims, own, start)
        top, where = sims.topk(min(wanted, sims.shape[1]), dim=1)
        best, index = torch.cat([best, top], dim=1), torch.cat([index, where + start], dim=1)
        if best.shape[1] > wanted:
            best, keep = best.topk(wanted, dim=1)
            index = index.gather(1, keep)
    values = comparison.exact(rows[:, None], index)
    values[best == -torch.inf] = -torch.inf
    found, similar = _order(index, values, k)
    if wanted < size:
        # a row that was left out has at most this filter value, hence at most this similarity
        most = best.amin(dim=1).to(torch.float64) + comparison.error
        unsure = (most >= similar[:, -1]).nonzero()[:, 0]
        step = max(1, _CHUNK // size)
        for at in range(0, len(unsure), step):
            part = unsure[at : at + step]
            found[part], similar[part] = _search_exactly(comparison, rows[part], own[part], k)
    return found, similar


def _hide_own(sims: Tensor, own: Tensor, start: int) -> None:
    inside = ((own >= start) & (own < start + sims.shape[1])).nonzero()[:, 0]
    sims[inside, own[inside] - start] = -torch.inf


def _order(index_BK: Tensor, values_BK: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The first k by (higher value, lower index)."""
    by_index = index_BK.argsort(dim=1)
    index_BK, values_BK = index_BK.gather(1, by_index), values_BK.gather(1, by_index)
    order = values_BK.sort(dim=1, descending=True, stable=True).indices[:, :k]
    return index_BK.gather(1, order), values_BK.gather(1, order)


def _search_exactly(comparison: Comparison, rows: Tensor, own: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The same from float64 similarities of whole rows."""
    size = len(comparison.gallery)
    sims = torch.empty(len(rows), size, dtype=torch.float64, device=rows.device)
    _hide_own(comparison.product(rows, sims), own, 0)
    bar = sims.topk(k, dim=1).values[:, -1:] - comparison.tolerance
    found, similar = [], []
    for row, above in zip(rows, sims >= bar, strict=True):
        index = above.nonzero()[:, 0]
        first = _order(index[None], comparison.exact(row, index)[None], k)
        found.append(first[0])
        similar.append(first[1])
    return torch.cat(found), torch.cat(similar)
