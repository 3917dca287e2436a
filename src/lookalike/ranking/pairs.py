"""The (query, positive) pairs that are followed: how similar they are, and how many negatives stand ahead.

A pair has two thresholds, its exact similarity minus and plus the rounding of the matrix product. What a tile
of products shows above both, or below both, is certain; what lies between is settled here, exactly.

Legend: P pairs, A some queries, T and U some pairs, M gallery rows of a tile.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from lookalike.ranking.positives import Positives
from lookalike.ranking.similarity import Comparison

CHUNK = 1 << 22
"""Entries of a matrix that is made for some pairs at a time."""

LARGE_CLASS = 24
"""Positives of a query from which their similarities are first found by a float64 product of the class."""

_DOUBLE_ERROR = 2.0**-44


class Pairs:
    """All pairs of some queries, in order of the query, then of the gallery row.

    Args:
        comparison: both sides.
        positives: those of the queries start.. .
        start: number of the first query in `comparison.queries`.
        limit: negatives ahead up to which a pair is followed, for each query.
        mutual: queries and gallery are the same rows in the same order, classes small.

    Attributes:
        offset: first pair of each query, and the number of all.
        owner, index: query, counted from `start`, and gallery row of each pair.
        bound: limit of each pair's query.
        low, high: thresholds, float32.
        best: whether no positive of the query is more similar, as far as is known.
        leader: the first such pair of each query, or -1.
        follow: whether negatives are still counted for the pair.
        greater, tied, before: negatives counted so far: more similar, as similar, those with a lower row.
    """

    def __init__(
        self, comparison: Comparison, positives: Positives, start: int, limit: np.ndarray, mutual: bool
    ) -> None:
        device = comparison.queries.device
        index, counts = positives.index, positives.counts()
        self.comparison, self.start, self.offset = comparison, start, positives.offset
        self.owner = torch.from_numpy(positives.owner()).to(device)
        self.index = torch.from_numpy(index).to(device)
        self.bound = torch.from_numpy(limit).to(device)[self.owner]
        self._group = torch.from_numpy(positives.group).to(device)
        self._rough = torch.from_numpy(np.repeat((counts >= LARGE_CLASS) & (not mutual), counts)).to(device)
        self._double_error = comparison.error / 2.0**-24 * _DOUBLE_ERROR
        self._value, slack = self._mutual_values() if mutual else self._values()
        error = comparison.error + slack
        infinite = torch.tensor(torch.inf, dtype=torch.float32, device=device)
        self.low = torch.nextafter((self._value - error).to(torch.float32), -infinite)
        self.high = torch.nextafter((self._value + error).to(torch.float32), infinite)
        top = torch.full((len(counts),), -torch.inf, dtype=torch.float64, device=device)
        top.scatter_reduce_(0, self.owner, self._value, "amax")
        self.best = self._value >= (top - 2 * slack)[self.owner]
        self.leader = torch.full((len(counts),), -1, dtype=torch.int64, device=device)
        leaders = self.best.nonzero()[:, 0].flip(0)
        self.leader[self.owner[leaders]] = leaders
        self.follow = torch.ones(len(index), dtype=torch.bool, device=device)
        self.greater = torch.zeros(len(index), dtype=torch.int64, device=device)
        self.tied, self.before = torch.zeros_like(self.greater), torch.zeros_like(self.greater)
        self._digest: Tensor | None = None

    def of(self, first: int, last: int) -> slice:
        """The pairs of queries first..last-1."""
        return slice(int(self.offset[first]), int(self.offset[last]))

    def _values(self) -> tuple[Tensor, float]:
        """Similarity of every pair, float64, exact for small classes and within the slack for large ones."""
        value = torch.empty(len(self.index), dtype=torch.float64, device=self.index.device)
        few = (~self._rough).nonzero()[:, 0]
        value[few] = self.comparison.exact(self.owner[few] + self.start, self.index[few])
        if len(few) == len(value):
            return value, 0.0
        for queries, gallery in self._large_classes():
            for at in range(0, len(queries), 256):
                part = queries[at : at + 256]
                block = self.comparison.nearly_exact(part + self.start, gallery)
                line, pair = self._pairs_of(part)
                value[pair] = block[line, torch.searchsorted(gallery, self.index[pair])]
        return value, self._double_error

    def _mutual_values(self) -> tuple[Tensor, float]:
        """The same where the pair (i, j) is as similar as (j, i): once is enough."""
        size = len(self.comparison.gallery)
        other = torch.searchsorted(self.owner * size + self.index, self.index * size + self.owner)
        once = (self.owner < self.index).nonzero()[:, 0]
        value = torch.empty(len(self.index), dtype=torch.float64, device=self.index.device)
        value[once] = self.comparison.exact(self.owner[once], self.index[once])
        value[other[once]] = value[once]
        return value, 0.0

    def _pairs_of(self, query_A: Tensor) -> tuple[Tensor, Tensor]:
        """The pairs of some queries, and for each pair the position of its query among them."""
        start = torch.from_numpy(self.offset).to(query_A.device)
        size = (start[1:] - start[:-1])[query_A]
        line = torch.repeat_interleave(torch.arange(len(query_A), device=query_A.device), size)
        within = torch.arange(len(line), device=line.device) - (size.cumsum(0) - size)[line]
        return line, start[query_A][line] + within

    def _large_classes(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Queries and gallery rows of each large class, both ascending."""
        large = (np.diff(self.offset) >= LARGE_CLASS).nonzero()[0]
        queries = torch.from_numpy(large).to(self.index.device)
        group = self._group[queries]
        for name in torch.unique(group).tolist():
            mine = queries[group == name]
            pair = slice(int(self.offset[mine[0]]), int(self.offset[mine[0] + 1]))
            rows = self.index[pair]
            if len(mine) > 1:  # one query's list lacks its own row, which another's has
                pair = slice(int(self.offset[mine[1]]), int(self.offset[mine[1] + 1]))
                rows = torch.unique(torch.cat([rows, self.index[pair]]))
            yield mine, rows

    def settle(self, pair_T: Tensor, column_T: Tensor) -> None:
        """Compares exactly: is gallery row `column` more or as similar to the query as the positive?"""
        query = self.owner[pair_T] + self.start
        value = self._exact_value(pair_T)
        other = self.comparison.exact(query, column_T)
        tied = other == value
        self.greater.index_add_(0, pair_T, (other > value).long())
        self.tied.index_add_(0, pair_T, tied.long())
        self.before.index_add_(0, pair_T, (tied & (column_T < self.index[pair_T])).long())

    def _exact_value(self, pair_T: Tensor) -> Tensor:
        value = self._value[pair_T]
        rough = self._rough[pair_T].nonzero()[:, 0]
        if len(rough):
            distinct, back = torch.unique(pair_T[rough], return_inverse=True)
            exact = self.comparison.exact(self.owner[distinct] + self.start, self.index[distinct])
            value[rough] = exact[back]
        return value

    def settle_crowd(self, pair_U: Tensor, band_UM: Tensor, begin: int) -> None:
        """The same where many rows are about as similar, as in collapsed embeddings.

        A float64 product decides nearly all, copies of the positive are known without arithmetic, and only
        what is left is compared one by one.
        """
        gallery = self.comparison.gallery
        if self._digest is None:
            self._digest = torch.from_numpy(gallery.digest_rows()).to(self.index.device)
        column = torch.arange(begin, min(begin + band_UM.shape[1], len(gallery)), device=self.index.device)
        band_UM = band_UM[:, : len(column)]
        query, back = torch.unique(self.owner[pair_U], return_inverse=True)
        step = max(1, CHUNK // len(column))
        for at in range(0, len(pair_U), step):
            pair, band = pair_U[at : at + step], band_UM[at : at + step]
            low, high = int(back[at : at + step].min()), int(back[at : at + step].max()) + 1
            values = self.comparison.nearly_exact(query[low:high] + self.start, column)
            excess = values[back[at : at + step] - low] - self._exact_value(pair)[:, None]
            positive = self.index[pair, None]
            copy = band & (self._digest[positive] == self._digest[column])
            ahead = band & ~copy & (excess > self._double_error)
            self.greater.index_add_(0, pair, ahead.sum(dim=1))
            self.tied.index_add_(0, pair, copy.sum(dim=1))
            self.before.index_add_(0, pair, (copy & (column < positive)).sum(dim=1))
            left = band & ~copy & (excess.abs() <= self._double_error)
            which, where = left.nonzero(as_tuple=True)
            self.settle(pair[which], column[where])

    def finish(self) -> tuple[Tensor, Tensor, Tensor]:
        """greater, tied and tied_before of every pair; those given up get the size of the gallery, 0, 0."""
        given_up = ~self.follow
        self.greater[given_up] = len(self.comparison.gallery)
        self.tied[given_up], self.before[given_up] = 0, 0
        return self.greater, self.tied, self.before
