"""How many wrong gallery rows stand ahead of each right one: the one count that every retrieval metric needs.

For a query, the *positives* are the gallery rows of its class (its own row removed by position), everything
else is a *negative*. Sorted by the number of negatives ahead of it, the m-th positive has rank
m + negatives ahead, whatever the order of the positives among themselves. So one counting pass over blocks
of similarities replaces sorting, and no top-k is needed.

Legend: Q queries, P (query, positive) pairs in all, B x M a block of similarities, R positives of a query.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lookalike.ranking.vectors import Comparison


@dataclass(frozen=True)
class Positives:
    """Gallery rows of each query's class: those of query i are index[offset[i]:offset[i + 1]], ascending."""

    offset: np.ndarray  # int64 (Q + 1,)
    index: np.ndarray  # int64 (P,)

    def counts(self) -> np.ndarray:
        """R of each query."""
        return np.diff(self.offset)

    def owner(self) -> np.ndarray:
        """Query of each pair, (P,)."""
        return np.repeat(np.arange(len(self.offset) - 1), self.counts())

    def slice(self, start: int, stop: int) -> "Positives":
        """Those of queries start..stop-1."""
        low, high = self.offset[start], self.offset[stop]
        return Positives(self.offset[start : stop + 1] - low, self.index[low:high])


@dataclass(frozen=True)
class Ahead:
    """Negatives ahead of each (query, positive) pair, arrays (P,) int64.

    greater: strictly more similar than the positive. tied: exactly as similar. tied_before: those of them
    with a lower gallery index. A pair that has more than the query's `limit` strictly ahead, and is not the
    query's most similar positive, is out of reach of every metric: greater is the size of the gallery, the
    other two 0.
    """

    greater: np.ndarray
    tied: np.ndarray
    tied_before: np.ndarray


def positives_of(query_labels: np.ndarray, gallery_labels: np.ndarray, own: np.ndarray | None) -> Positives:
    """The positives of each query; `own` (Q,) is its own gallery position or -1."""
    order = np.argsort(gallery_labels, kind="stable")
    ordered = gallery_labels[order]
    first = np.searchsorted(ordered, query_labels, side="left")
    size = np.searchsorted(ordered, query_labels, side="right") - first
    owner = np.repeat(np.arange(len(query_labels)), size)
    start = np.concatenate([[0], np.cumsum(size)])
    index = order[np.repeat(first, size) + np.arange(len(owner)) - np.repeat(start[:-1], size)]
    if own is not None:
        keep = index != own[owner]
        index, owner = index[keep], owner[keep]
    offset = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(query_labels)))])
    return Positives(offset.astype(np.int64), index.astype(np.int64))


def count_ahead(
    comparison: Comparison,
    positives: Positives,
    own: np.ndarray | None,
    *,
    start: int,
    limit: np.ndarray,
    gallery_block: int,
) -> Ahead:
    """Counts for the queries start..start+Q-1 of `comparison`, whose positives are `positives`.

    Args:
        own: (Q,) gallery position of each query's own row, or -1.
        limit: (Q,) a positive with more negatives ahead is not followed further (except the best one).
    """
    device = comparison.queries.device
    queries = len(positives.offset) - 1
    owner = torch.from_numpy(positives.owner()).to(device)
    index = torch.from_numpy(positives.index).to(device)
    value = comparison.exact(owner + start, index)
    low = _below(value - comparison.error)
    high = _above(value + comparison.error)
    best = _best_of_each(owner, value, queries)
    bound = torch.from_numpy(limit).to(device)[owner]
    alive = torch.ones(len(owner), dtype=torch.bool, device=device)
    greater = torch.zeros(len(owner), dtype=torch.int64, device=device)
    tied, before = torch.zeros_like(greater), torch.zeros_like(greater)
    hidden_row, hidden_column = owner, index
    if own is not None:
        mine = torch.from_numpy(own).to(device)
        has = (mine >= 0).nonzero()[:, 0]
        hidden_row, hidden_column = torch.cat([owner, has]), torch.cat([index, mine[has]])
    by_column = hidden_column.argsort()
    hidden_row, hidden_column = hidden_row[by_column], hidden_column[by_column].contiguous()
    left = comparison.query_operand(comparison.queries.block(start, start + queries))
    count = len(comparison.gallery)
    for begin in range(0, count, gallery_block):
        end = min(begin + gallery_block, count)
        sims = left @ comparison.gallery_operand(comparison.gallery.block(begin, end)).T
        span = torch.searchsorted(hidden_column, torch.tensor([begin, end], device=device))
        part = slice(int(span[0]), int(span[1]))
        sims[hidden_row[part], hidden_column[part] - begin] = -torch.inf
        top = sims.amax(dim=1)
        pairs = (alive & (low < top[owner])).nonzero()[:, 0]
        step = max(1, (1 << 24) // (end - begin))
        for first in range(0, len(pairs), step):
            some = pairs[first : first + step]
            rows = sims[owner[some]]
            above = rows > high[some, None]
            number = above.sum(dim=1)
            greater[some] += number
            unsure = ((rows > low[some, None]).sum(dim=1) > number).nonzero()[:, 0]
            if len(unsure):
                band = (rows[unsure] > low[some[unsure], None]) & ~above[unsure]
                which, column = band.nonzero(as_tuple=True)
                pair, column = some[unsure[which]], column + begin
                other = comparison.exact(owner[pair] + start, column)
                greater.index_add_(0, pair, (other > value[pair]).long())
                tied.index_add_(0, pair, (other == value[pair]).long())
                before.index_add_(0, pair, ((other == value[pair]) & (column < index[pair])).long())
        alive = best | (greater <= bound)
    greater[~alive], tied[~alive], before[~alive] = count, 0, 0
    return Ahead(greater.cpu().numpy(), tied.cpu().numpy(), before.cpu().numpy())


def _below(value: Tensor) -> Tensor:
    """float32 not above the float64 value."""
    return torch.nextafter(value.to(torch.float32), torch.tensor(-torch.inf, device=value.device))


def _above(value: Tensor) -> Tensor:
    """float32 not below the float64 value."""
    return torch.nextafter(value.to(torch.float32), torch.tensor(torch.inf, device=value.device))


def _best_of_each(owner: Tensor, value: Tensor, queries: int) -> Tensor:
    """True for every positive that is as similar as the most similar one of its query."""
    top = torch.full((queries,), -torch.inf, dtype=torch.float64, device=value.device)
    top.scatter_reduce_(0, owner, value, "amax")
    return value == top[owner]
