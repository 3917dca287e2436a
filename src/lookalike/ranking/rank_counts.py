"""Number of negatives ahead of each positive of each query: the one count that every retrieval metric needs.

The *positives* of a query are the gallery rows of its class without its own row; all other rows are
*negatives*. The m-th nearest positive has rank m + (negatives ahead of it), so nothing has to be sorted
completely. Negatives that are as similar as the positive are ahead when their gallery row is lower.

For a block of queries the float32 similarities with the whole gallery are computed. A positive that more
negatives beat than any metric looks at (`limit`) is out of reach. Counts of positives within reach come from
the few negatives above the lowest of them; the most similar positive of a query, whose rank MRR needs, is
counted over the whole row when it is out of reach. Negatives within the rounding of a positive are compared
in float64, single pairs or, where they are many (collapsed embeddings), whole rows.

Legend: B queries of a block, N gallery rows, G groups of g gallery rows, P (query, positive) pairs.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lookalike.ranking.query_set import Integers, QuerySet
from lookalike.ranking.similarity import Comparison

_GROUP = 16  # gallery rows per group
_LARGEST_BLOCK = 1024
_BYTES_PER_PAIR = 150
_CHUNK = 1 << 22  # entries of copied rows at a time
_SORTED = 1 << 20  # float64 similarities sorted at a time
_CROWDED = 64  # undecided negatives of a pair from which its whole row is compared in float64


@dataclass(frozen=True)
class RankCounts:
    """Counts of a block of queries.

    Attributes:
        queries: (B,) numbers of the queries.
        positives: (B,) R of each query.
        owner: (P,) position in `queries` of each pair's query, ascending.
        ahead: (P,) negatives ahead of the pair's positive. Out of reach it is the size of the gallery, or exact:
            always for the most similar positive of a query.
        tied: (P,) negatives exactly as similar; 0 out of reach.
    """

    queries: Integers
    positives: Integers
    owner: Integers
    ahead: Integers
    tied: Integers


def count_ranks(
    comparison: Comparison,
    query_set: QuerySet,
    queries: Integers,
    *,
    k: int,
    memory_mb: float,
    query_block: int | None = None,
) -> Iterator[RankCounts]:
    """Counts for `queries`, block by block, queries with few positives first.

    Args:
        queries: numbers of queries in `query_set` and in `comparison.queries`.
        k: largest K of the metrics; a query's limit is K or its number of positives, whichever is larger.
        memory_mb: bound on the working memory of a block.
        query_block: queries per block instead; the counts are the same.
    """
    relevant = query_set.count_positives()
    queries = queries[np.argsort(relevant[queries], kind="stable")]
    size = len(comparison.gallery)
    buffer = torch.empty(0, device=comparison.device)
    start = 0
    while start < len(queries):
        rows = query_block or _block_rows(relevant[queries[start:]], size, k, memory_mb)
        part = queries[start : start + rows]
        owner, index = query_set.positives(part)
        needed = len(part) * (size + _GROUP)
        if buffer.numel() < needed:  # reused, since touching fresh memory costs as much as a pass over it
            buffer = torch.empty(needed, device=comparison.device)
        block = _Block(
            comparison,
            torch.from_numpy(part).to(comparison.device),
            torch.from_numpy(owner).to(comparison.device),
            torch.from_numpy(index).to(comparison.device),
            torch.from_numpy(np.maximum(relevant[part], k)).to(comparison.device),
        )
        block.count(torch.from_numpy(query_set.own[part]).to(comparison.device), buffer)
        ahead = (block.greater + block.tied_before).cpu().numpy()
        yield RankCounts(part, relevant[part], owner, ahead, block.tied.cpu().numpy())
        start += len(part)


def _block_rows(relevant: Integers, size: int, k: int, memory_mb: float) -> int:
    """Queries whose similarities, pairs and candidates fit into the memory; at least one."""
    some = relevant[:_LARGEST_BLOCK]
    limit = np.maximum(some, k)
    candidates = np.where(4 * (limit + 1) * 2 > size, size, 8 * limit)
    needed = np.cumsum(6 * size + _BYTES_PER_PAIR * some + 64 * candidates)
    return max(1, int(np.searchsorted(needed, memory_mb * 2**20, side="right")))


class _Block:
    """Counts of one block in the making.

    Args:
        comparison: both sides.
        queries: (B,) rows of `comparison.queries`.
        owner, index: (P,) query position and gallery row of each pair.
        limit: (B,) negatives ahead up to which a positive is within reach.
    """

    def __init__(
        self, comparison: Comparison, queries: Tensor, owner: Tensor, index: Tensor, limit: Tensor
    ) -> None:
        self.comparison, self.queries = comparison, queries
        self.owner, self.index, self.limit = owner, index, limit
        self.greater = torch.zeros_like(owner)
        self.tied = torch.zeros_like(owner)
        self.tied_before = torch.zeros_like(owner)

    def count(self, own: Tensor, buffer: Tensor) -> None:
        """Counts for all pairs.

        Args:
            own: (B,) each query's own gallery row or -1.
            buffer: memory for B x (N + _GROUP) similarities.
        """
        size = len(self.comparison.gallery)
        group = max(1, min(_GROUP, size // (4 * (int(self.limit.max()) + 1))))
        groups = -(-size // group)
        padded = buffer[: len(self.queries) * group * groups].view(len(self.queries), -1)
        sims = padded[:, :size]
        padded[:, size:] = -torch.inf
        self.comparison.product(self.queries, sims)
        value = sims[self.owner, self.index]
        self._own = own
        self._mask(sims, torch.arange(len(own), device=own.device))
        # both sides of a comparison are rounded; the rest covers the arithmetic of thresholds and keys
        margin = 2 * self.comparison.error + 2.0**-21 * self.comparison.reach
        low, high = value - margin, value + margin

        largest = padded.view(len(padded), group, groups).amax(dim=1)
        within = high >= self._bar(largest)[self.owner]
        top = torch.full((len(padded),), -torch.inf, device=padded.device)
        top.scatter_reduce_(0, self.owner, value, "amax")
        best = value >= top[self.owner] - margin
        self.greater[~within & ~best] = size

        self._count_candidates(padded, largest, within.nonzero()[:, 0], low, high)
        self._count_rows(sims, (best & ~within).nonzero()[:, 0], low, high)
        self.tied[self.greater > self.limit[self.owner]] = 0

    def _mask(self, sims: Tensor, rows: Tensor) -> None:
        """Hides positives and own rows of the block's queries `rows`, the rows of `sims`."""
        line_of = torch.full((len(self.queries),), -1, device=rows.device)
        line_of[rows] = torch.arange(len(rows), device=rows.device)
        mine = line_of[self.owner] >= 0
        sims[line_of[self.owner[mine]], self.index[mine]] = -torch.inf
        has = (self._own[rows] >= 0).nonzero()[:, 0]
        sims[has, self._own[rows[has]]] = -torch.inf

    def _bar(self, largest: Tensor) -> Tensor:
        """(B,) value that more than `limit` negatives reach, each the largest of a group of its own."""
        count = int(self.limit.max()) + 1
        if count > largest.shape[1]:
            return torch.full((len(largest),), -torch.inf, device=largest.device)
        return largest.topk(count, dim=1).values.gather(1, self.limit[:, None])[:, 0]

    def _count_candidates(
        self, padded: Tensor, largest: Tensor, pairs: Tensor, low: Tensor, high: Tensor
    ) -> None:
        """Counts for `pairs` from the negatives above the lowest of them in each row, sorted by row and value."""
        rows, groups = largest.shape
        lowest = torch.full((rows,), torch.inf, device=largest.device)
        lowest.scatter_reduce_(0, self.owner[pairs], low[pairs], "amin")
        row, group = (largest > lowest[:, None]).nonzero(as_tuple=True)
        values = padded.view(rows, -1, groups)[row, :, group]
        which, member = (values > lowest[row, None]).nonzero(as_tuple=True)
        scale = 1 / self.comparison.reach
        keys, order = (row[which] * 4.0 - values[which, member].double() * scale).sort()
        column = (member * groups + group[which])[order]

        base = self.owner[pairs] * 4.0
        begin = torch.searchsorted(keys, base - 2)
        sure = torch.searchsorted(keys, base - high[pairs].double() * scale)
        maybe = torch.searchsorted(keys, base - low[pairs].double() * scale, right=True)
        self.greater[pairs] = sure - begin
        crowded = maybe - sure > _CROWDED
        self._count_in_float64(pairs[crowded])
        width = torch.where(crowded, 0, maybe - sure)
        within = torch.arange(int(width.sum()), device=width.device)
        within -= torch.repeat_interleave(width.cumsum(0) - width, width)
        self._compare(
            torch.repeat_interleave(pairs, width), column[torch.repeat_interleave(sure, width) + within]
        )

    def _count_rows(self, sims: Tensor, pairs: Tensor, low: Tensor, high: Tensor) -> None:
        """Counts for `pairs` over all negatives."""
        step = max(1, _CHUNK // sims.shape[1])
        for at in range(0, len(pairs), step):
            part = pairs[at : at + step]
            rows = sims[self.owner[part]]
            above, maybe = rows > high[part, None], rows > low[part, None]
            self.greater[part] = _count_true(above)
            unsure = _count_true(maybe) - self.greater[part]
            crowded = unsure > _CROWDED
            self._count_in_float64(part[crowded])
            few = ((unsure > 0) & ~crowded).nonzero()[:, 0]
            which, column = (maybe[few] & ~above[few]).nonzero(as_tuple=True)
            self._compare(part[few[which]], column)

    def _compare(self, pairs: Tensor, column: Tensor) -> None:
        """Adds single negatives `column` to the counts of `pairs`, compared in float64."""
        distinct, back = torch.unique(pairs, return_inverse=True)
        value = self.comparison.exact(self.queries[self.owner[distinct]], self.index[distinct])[back]
        excess = self.comparison.exact(self.queries[self.owner[pairs]], column) - value
        tied = excess.abs() <= self.comparison.tolerance
        self.greater.index_add_(0, pairs, ((excess > 0) & ~tied).long())
        self.tied.index_add_(0, pairs, tied.long())
        self.tied_before.index_add_(0, pairs, (tied & (column < self.index[pairs])).long())

    def _count_in_float64(self, pairs: Tensor) -> None:
        """Counts for `pairs` in whole rows of float64 similarities, sorted by value and then by gallery row."""
        size = len(self.comparison.gallery)
        rows, line_of = torch.unique(self.owner[pairs], return_inverse=True)
        step = max(1, _SORTED // size)
        for first in range(0, len(rows), step):
            part = rows[first : first + step]
            mine = ((line_of >= first) & (line_of < first + step)).nonzero()[:, 0]
            line, pair = line_of[mine] - first, pairs[mine]
            sims = torch.empty(len(part), size, dtype=torch.float64, device=pairs.device)
            self.comparison.product(self.queries[part], sims)
            negative = torch.zeros_like(sims)
            self._mask(negative, part)
            negative = negative == 0
            start, stop, order = _sort_rows(sims, self.comparison.tolerance)
            before = torch.nn.functional.pad(negative.gather(1, order).cumsum(dim=1), (1, 0))
            position = torch.empty_like(order)
            position.scatter_(1, order, torch.arange(size, device=order.device).expand_as(order))
            at = position[line, self.index[pair]]
            ahead = before[line, start[line, at]]
            self.greater[pair] = ahead
            self.tied[pair] = before[line, stop[line, at]] - ahead
            self.tied_before[pair] = before[line, at] - ahead


def _sort_rows(sims: Tensor, tolerance: float) -> tuple[Tensor, Tensor, Tensor]:
    """Columns of each row by (higher value, lower column), and the first and end position of the equal values
    around each position. Values that lie no further apart than `tolerance` are equal."""
    size = sims.shape[1]
    values, order = sims.sort(dim=1, descending=True, stable=True)
    new = torch.ones_like(values, dtype=torch.bool)
    new[:, 1:] = values[:, :-1] - values[:, 1:] > tolerance
    if tolerance > 0:
        order = (new.cumsum(dim=1) * size + order).sort(dim=1).values % size
    position = torch.arange(size, device=sims.device)
    start = torch.where(new, position, 0).cummax(dim=1).values
    following = torch.nn.functional.pad(torch.where(new, position, size)[:, 1:], (0, 1), value=size)
    stop = following.flip(1).cummin(dim=1).values.flip(1)
    return start, stop, order


def _count_true(mask: Tensor) -> Tensor:
    """Number of True per row, int64; adding bytes in groups is several times as fast as `mask.sum(1)`."""
    rows, columns = mask.shape
    groups = -(-columns // 128)
    if mask.shape[1] != groups * 128:
        mask = torch.nn.functional.pad(mask, (0, groups * 128 - columns))
    return mask.view(torch.uint8).view(rows, 128, groups).sum(dim=1, dtype=torch.uint8).sum(dim=1)
