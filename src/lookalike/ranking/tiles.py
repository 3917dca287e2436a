"""Counting inside one tile of similarities: how many negatives of the tile beat each followed positive.

Every positive has two thresholds, its exact similarity minus and plus the rounding of the matrix product. A
negative above both is ahead, one below both is not; one between them is compared exactly. Rows whose largest
negative lies below a threshold need no counting for it, which with trained embeddings is most of them.

Comparisons write one byte an entry into reused memory, and bytes are added eight at a time as 64-bit words.

Legend: B queries of the tile, M gallery rows, L (query, positive) pairs followed in it, K longest list.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from lookalike.ranking.positives import Positives
from lookalike.ranking.vectors import Comparison

_CHUNK = 1 << 22
_FEW_ROWS = 0.05
_FEW_CANDIDATES = 0.1
_LARGE_CLASS = 24
_CROWDED = 64
_DOUBLE_ERROR = 2.0**-44


def count_true(mask: Tensor, dim: int) -> Tensor:
    """Number of True along `dim` of a boolean matrix stored row by row, its width a multiple of 8; int64."""
    words = mask.view(torch.int64)
    if dim == 0:
        parts = [words[at : at + 255].sum(dim=0).view(torch.uint8) for at in range(0, len(words), 255)]
        return torch.stack(parts).sum(dim=0)
    parts = [words[:, at : at + 255].sum(dim=1) for at in range(0, words.shape[1], 255)]
    return torch.stack(parts, dim=1).view(torch.uint8).sum(dim=1)


class Counter:
    """Counts of every pair, fed tile by tile.

    Args:
        comparison: both sides.
        positives: those of the queries start.. .
        own: gallery position of each query's own row, or -1; None without any.
        start: number of the first query in `comparison.queries`.
        limit: negatives ahead up to which a pair is followed, for each query.
        mutual: queries and gallery are the same rows in the same order, classes small.
    """

    def __init__(
        self,
        comparison: Comparison,
        positives: Positives,
        own: np.ndarray | None,
        start: int,
        limit: np.ndarray,
        mutual: bool,
    ) -> None:
        device = comparison.queries.device
        offset, index, group = positives.offset, positives.index, positives.group
        queries = len(offset) - 1
        self.comparison, self.start, self.offset = comparison, start, offset
        counts = np.diff(offset)
        self.owner = torch.from_numpy(np.repeat(np.arange(queries), counts)).to(device)
        self.index = torch.from_numpy(index).to(device)
        self.own = None if own is None else torch.from_numpy(own).to(device)
        self.bound = torch.from_numpy(limit).to(device)[self.owner]
        self.mutual = mutual
        self.group = torch.from_numpy(group).to(device)
        self.rough = torch.from_numpy(np.repeat((counts >= _LARGE_CLASS) & (not mutual), counts)).to(device)
        self.double_error = comparison.error / 2.0**-24 * _DOUBLE_ERROR
        self.value, slack = self._values()
        error = comparison.error + slack
        self.low = torch.nextafter((self.value - error).to(torch.float32), _scalar(-torch.inf, device))
        self.high = torch.nextafter((self.value + error).to(torch.float32), _scalar(torch.inf, device))
        top = torch.full((queries,), -torch.inf, dtype=torch.float64, device=device)
        top.scatter_reduce_(0, self.owner, self.value, "amax")
        self.best = self.value >= (top - 2 * slack)[self.owner]
        self.leader = torch.full((queries,), -1, dtype=torch.int64, device=device)
        leaders = self.best.nonzero()[:, 0].flip(0)
        self.leader[self.owner[leaders]] = leaders
        self.follow = torch.ones(len(index), dtype=torch.bool, device=device)
        self.greater = torch.zeros(len(index), dtype=torch.int64, device=device)
        self.tied, self.before = torch.zeros_like(self.greater), torch.zeros_like(self.greater)
        self._memory: dict[str, Tensor] = {}
        self._digest: Tensor | None = None

    def _values(self) -> tuple[Tensor, float]:
        """Similarity of every pair, float64, exact for small classes and within the slack for large ones."""
        value = torch.empty(len(self.index), dtype=torch.float64, device=self.index.device)
        few = (~self.rough).nonzero()[:, 0]
        if self.mutual:  # the pair (i, j) is as similar as (j, i): once is enough
            key = self.owner * len(self.comparison.gallery) + self.index
            other = torch.searchsorted(key, self.index * len(self.comparison.gallery) + self.owner)
            once = (self.owner < self.index).nonzero()[:, 0]
            value[once] = self.comparison.exact(self.owner[once], self.index[once])
            value[other[once]] = value[once]
            return value, 0.0
        value[few] = self.comparison.exact(self.owner[few] + self.start, self.index[few])
        if len(few) == len(value):
            return value, 0.0
        for queries, gallery in self._large_classes():
            for at in range(0, len(queries), 256):
                part = queries[at : at + 256]
                block = self.comparison.nearly_exact(part + self.start, gallery)
                line, pair = self._pairs_of(part)
                value[pair] = block[line, torch.searchsorted(gallery, self.index[pair])]
        return value, self.double_error

    def _pairs_of(self, query_A: Tensor) -> tuple[Tensor, Tensor]:
        """The pairs of some queries, and for each pair the position of its query among them."""
        start = torch.from_numpy(self.offset).to(query_A.device)
        size = (start[1:] - start[:-1])[query_A]
        line = torch.repeat_interleave(torch.arange(len(query_A), device=query_A.device), size)
        within = torch.arange(len(line), device=line.device) - (size.cumsum(0) - size)[line]
        return line, start[query_A][line] + within

    def _large_classes(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Queries and gallery rows of each large class, both ascending."""
        large = (np.diff(self.offset) >= _LARGE_CLASS).nonzero()[0]
        queries = torch.from_numpy(large).to(self.index.device)
        group = self.group[queries]
        for name in torch.unique(group).tolist():
            mine = queries[group == name]
            pair = slice(int(self.offset[mine[0]]), int(self.offset[mine[0] + 1]))
            rows = self.index[pair]
            if len(mine) > 1:  # one query's list lacks its own row, which another's has
                pair = slice(int(self.offset[mine[1]]), int(self.offset[mine[1] + 1]))
                rows = torch.unique(torch.cat([rows, self.index[pair]]))
            yield mine, rows

    def _reuse(self, name: str, rows: int, columns: int, dtype: torch.dtype) -> Tensor:
        """A matrix on memory that was used before: fresh memory costs more than the arithmetic."""
        held = self._memory.get(name)
        if held is None or held.numel() < rows * columns:
            held = torch.empty(rows * columns, dtype=dtype, device=self.index.device)
            self._memory[name] = held
        return held[: rows * columns].view(rows, columns)

    def tile(self, left_BD: Tensor, right_MD: Tensor, first: int, begin: int) -> Tensor:
        """Similarities (B, M rounded up to 8) of the negatives; positives, own rows and padding are -inf."""
        rows, columns = len(left_BD), len(right_MD)
        padded = (columns + 7) // 8 * 8
        if padded > columns:
            right_MD = torch.nn.functional.pad(right_MD, (0, 0, 0, padded - columns))
        sims = self._reuse("sims", rows, padded, torch.float32)
        torch.mm(left_BD, right_MD.T, out=sims)
        sims[:, columns:] = -torch.inf
        pair = slice(int(self.offset[first]), int(self.offset[first + rows]))
        column = self.index[pair] - begin
        inside = ((column >= 0) & (column < columns)).nonzero()[:, 0]
        sims[self.owner[pair][inside] - first, column[inside]] = -torch.inf
        if self.own is not None:
            column = self.own[first : first + rows] - begin
            inside = ((column >= 0) & (column < columns)).nonzero()[:, 0]
            sims[inside, column[inside]] = -torch.inf
        return sims

    def count(self, sims: Tensor, first: int, last: int, begin: int) -> None:
        """Adds what the tile `sims` (queries first..last-1 by gallery rows begin..) says of its queries.

        A tile whose queries are columns is given as a transposed view.
        """
        queries = last - first
        sims = sims[:queries] if sims.shape[0] > queries else sims
        pairs = slice(int(self.offset[first]), int(self.offset[last]))
        top = sims.amax(dim=1)
        needed = (self.follow[pairs] & (self.low[pairs] < top[self.owner[pairs] - first])).nonzero()[:, 0]
        self._spread(sims, needed + pairs.start, first, begin)
        self.follow[pairs] = self.best[pairs] | (self.greater[pairs] <= self.bound[pairs])

    def _spread(self, sims: Tensor, pair_L: Tensor, first: int, begin: int) -> None:
        """Chooses the cheapest way to count for these pairs."""
        few = _FEW_ROWS * len(sims)
        if len(pair_L) <= few:
            return self._listed(sims, pair_L, first, begin)
        mask, number = self._above_lowest(sims, pair_L, first)
        if number > _FEW_CANDIDATES * sims.numel():
            leads = self.leader[self.owner[pair_L]] == pair_L
            if int(leads.sum()) > few:
                leader_B = torch.full((len(sims),), -1, dtype=torch.int64, device=sims.device)
                leader_B[self.owner[pair_L[leads]] - first] = pair_L[leads]
                self._whole(sims, leader_B, first, begin)
                pair_L = pair_L[~leads]
            if len(pair_L) > few:
                pair_L = self._give_up(sims, pair_L, first)
            if len(pair_L) <= few:
                return self._listed(sims, pair_L, first, begin)
            mask, number = self._above_lowest(sims, pair_L, first)
            if number > _FEW_CANDIDATES * sims.numel():
                more = self._largest(sims, pair_L, first, begin)
                return self._listed(sims, more, first, begin)
        return self._candidates(sims, mask, pair_L, first, begin)

    def _above_lowest(self, sims: Tensor, pair_L: Tensor, first: int) -> tuple[Tensor, int]:
        """Mask of entries above the lowest threshold of their query, stored as `sims` is; their number."""
        lowest = torch.full((len(sims),), torch.inf, device=sims.device)
        lowest.scatter_reduce_(0, self.owner[pair_L] - first, self.low[pair_L], "amin")
        dim = 1 if sims.is_contiguous() else 0
        mask = self._compare(sims if dim == 1 else sims.T, lowest.unsqueeze(dim), "maybe")
        return mask, int(count_true(mask, dim).sum())

    def _give_up(self, sims: Tensor, pair_L: Tensor, first: int) -> Tensor:
        """Drops pairs that more negatives of this tile beat than their limit allows; returns the others.

        A row is cut into groups. If the (limit + 1)-th largest of the groups' maxima lies above a positive,
        so do at least limit + 1 negatives, each in a group of its own.
        """
        longest = int(self.bound[pair_L].max()) + 1
        groups = max(128, 2 * longest)
        size = sims.shape[1] // groups
        if size < 2:
            return pair_L
        part = sims[:, : size * groups]
        if part.stride(1) == 1:
            maxima = part.view(-1, size, groups).amax(dim=1)
        else:
            maxima = part.T.view(size, groups, -1).amax(dim=0).T.contiguous()
        bar = maxima.topk(longest, dim=1).values
        row = self.owner[pair_L] - first
        lost = (bar[row, self.bound[pair_L]] > self.high[pair_L]) & ~self.best[pair_L]
        self.greater[pair_L[lost]] = self.bound[pair_L[lost]] + 1
        return pair_L[~lost]

    def _compare(self, stored: Tensor, threshold: Tensor, name: str) -> Tensor:
        """stored > threshold in reused memory, False in the columns that fill up to a multiple of 8."""
        rows, columns = stored.shape
        mask = self._reuse(name, rows, (columns + 7) // 8 * 8, torch.bool)
        mask[:, columns:] = False
        torch.gt(stored, threshold, out=mask[:, :columns])
        return mask

    def _candidates(self, sims: Tensor, mask: Tensor, pair_L: Tensor, first: int, begin: int) -> None:
        """Few entries can matter: they are taken out of the tile, sorted by row, and searched."""
        words = mask.view(torch.int64)
        line, word = words.nonzero(as_tuple=True)
        which, byte = mask.view(*words.shape, 8)[line, word].nonzero(as_tuple=True)
        row, column = line[which], word[which] * 8 + byte
        if not sims.is_contiguous():
            row, column = column, row
        keys, order = _descending_keys(row, sims[row, column]).sort()
        self._listed(sims, self._search(keys, column[order], pair_L, first, begin), first, begin)

    def _whole(self, sims: Tensor, leader_B: Tensor, first: int, begin: int) -> None:
        """One pair of every query, the tile compared as it lies; -1 for none."""
        dim = 1 if sims.is_contiguous() else 0
        has = leader_B >= 0
        safe = leader_B.clamp_min(0)
        infinite = _scalar(torch.inf, sims.device)
        high = torch.where(has, self.high[safe], infinite)
        low = torch.where(has, self.low[safe], infinite)
        stored = sims if dim == 1 else sims.T
        above = self._compare(stored, high.unsqueeze(dim), "above")
        maybe = self._compare(stored, low.unsqueeze(dim), "maybe")
        number = count_true(above, dim)[: len(leader_B)]
        count = count_true(maybe, dim)[: len(leader_B)] - number
        unsure = (count > 0) & has
        crowded = unsure & (count > _CROWDED)
        self.greater.index_add_(0, safe, torch.where(has & ~crowded, number, 0))
        rows = (unsure & ~crowded).nonzero()[:, 0]
        if len(rows):
            if dim == 1:
                band = maybe[rows] & ~above[rows]
            else:
                band = (maybe.index_select(1, rows) & ~above.index_select(1, rows)).T
            which, column = band.nonzero(as_tuple=True)
            self._settle(leader_B[rows[which]], column + begin)
        self._listed(sims, leader_B[crowded], first, begin)

    def _listed(self, sims: Tensor, pair_L: Tensor, first: int, begin: int) -> None:
        """Pairs one by one, each with a copy of its query's row."""
        step = max(1, _CHUNK // sims.shape[1])
        for at in range(0, len(pair_L), step):
            self._copied(sims, pair_L[at : at + step], first, begin)

    def _copied(self, sims: Tensor, pair_L: Tensor, first: int, begin: int) -> None:
        rows = sims.index_select(0, self.owner[pair_L] - first)
        if rows.shape[1] % 8:
            rows = torch.nn.functional.pad(rows, (0, -rows.shape[1] % 8), value=-torch.inf)
        above, maybe = (
            self._reuse(name, rows.shape[0], rows.shape[1], torch.bool) for name in ("above", "maybe")
        )
        torch.gt(rows, self.high[pair_L, None], out=above)
        torch.gt(rows, self.low[pair_L, None], out=maybe)
        number = count_true(above, 1)
        self.greater.index_add_(0, pair_L, number)
        count = count_true(maybe, 1) - number
        unsure = (count > 0).nonzero()[:, 0]
        if len(unsure):
            band = maybe[unsure] & ~above[unsure]
            if int(count.max()) > _CROWDED:
                self._settle_crowd(pair_L[unsure], band, begin)
            else:
                which, column = band.nonzero(as_tuple=True)
                self._settle(pair_L[unsure[which]], column + begin)

    def _largest(self, sims: Tensor, pair_L: Tensor, first: int, begin: int) -> Tensor:
        """Many entries above many pairs: the largest of each row, sorted; returns pairs that need more.

        A list one longer than the limit decides every pair: a count that reaches its end ends the pair.
        """
        length = min(int(self.bound[pair_L].max()) + 1, sims.shape[1])
        values, columns = sims.contiguous().topk(length, dim=1)
        row = torch.arange(len(sims), device=sims.device)[:, None]
        keys = _descending_keys(row, values).reshape(-1)
        return self._search(
            keys, columns.reshape(-1), pair_L, first, begin, 0 if length == sims.shape[1] else length
        )

    def _search(
        self, keys: Tensor, column: Tensor, pair_L: Tensor, first: int, begin: int, cut: int = 0
    ) -> Tensor:
        """Counts in the sorted lists of all rows, laid end to end.

        Lists that were cut at `cut` entries leave some pairs undecided, and pairs that a crowd is about as
        similar as are better settled otherwise: those are returned.
        """
        row = self.owner[pair_L] - first
        rows = torch.arange(int(row[-1]) + 1 if len(row) else 0, device=row.device)
        start = torch.searchsorted(keys, rows << 32)[row]
        end = torch.searchsorted(keys, _descending_keys(row, self.low[pair_L]))
        maybe = end - start
        # nearly always the last of them is above the other threshold too, and all are ahead for sure
        top = _descending_keys(row, self.high[pair_L])
        doubt = (
            ((maybe > 0) & (keys[(end - 1).clamp_min(0)] >= top)).nonzero()[:, 0] if len(keys) else rows[:0]
        )
        number = maybe.clone()
        number[doubt] = torch.searchsorted(keys, top[doubt]) - start[doubt]
        more = torch.zeros_like(number, dtype=torch.bool)
        if cut:
            more = (maybe == cut) & (self.best[pair_L] | (number <= self.bound[pair_L]))
            number = torch.where(more, 0, number)
        crowded = (maybe - number > _CROWDED) & ~more & (self.best[pair_L] | (number <= self.bound[pair_L]))
        more = more | crowded
        number = torch.where(crowded, 0, number)
        self.greater.index_add_(0, pair_L, number)
        unsure = ((maybe > number) & ~more).nonzero()[:, 0]
        if len(unsure):
            width = (maybe - number)[unsure]
            which = torch.repeat_interleave(unsure, width)
            within = torch.arange(len(which), device=row.device)
            within -= torch.repeat_interleave(width.cumsum(0) - width, width)
            self._settle(pair_L[which], column[start[which] + number[which] + within] + begin)
        return pair_L[more]

    def _settle(self, pair_T: Tensor, column_T: Tensor) -> None:
        """Compares exactly: is gallery row `column` more or as similar to the query as the positive?"""
        query = self.owner[pair_T] + self.start
        value = self._exact_value(pair_T)
        other = self.comparison.exact(query, column_T)
        tied = other == value
        self.greater.index_add_(0, pair_T, (other > value).long())
        self.tied.index_add_(0, pair_T, tied.long())
        self.before.index_add_(0, pair_T, (tied & (column_T < self.index[pair_T])).long())

    def _exact_value(self, pair_T: Tensor) -> Tensor:
        value = self.value[pair_T]
        rough = self.rough[pair_T].nonzero()[:, 0]
        if len(rough):
            distinct, back = torch.unique(pair_T[rough], return_inverse=True)
            exact = self.comparison.exact(self.owner[distinct] + self.start, self.index[distinct])
            value[rough] = exact[back]
        return value

    def _settle_crowd(self, pair_U: Tensor, band_UM: Tensor, begin: int) -> None:
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
        step = max(1, _CHUNK // len(column))
        for at in range(0, len(pair_U), step):
            pair, band = pair_U[at : at + step], band_UM[at : at + step]
            low, high = int(back[at : at + step].min()), int(back[at : at + step].max()) + 1
            values = self.comparison.nearly_exact(query[low:high] + self.start, column)
            excess = values[back[at : at + step] - low] - self._exact_value(pair)[:, None]
            positive = self.index[pair, None]
            copy = band & (self._digest[positive] == self._digest[column])
            ahead = band & ~copy & (excess > self.double_error)
            self.greater.index_add_(0, pair, ahead.sum(dim=1))
            self.tied.index_add_(0, pair, copy.sum(dim=1))
            self.before.index_add_(0, pair, (copy & (column < positive)).sum(dim=1))
            left = band & ~copy & (excess.abs() <= self.double_error)
            which, where = left.nonzero(as_tuple=True)
            self._settle(pair[which], column[where])

    def finish(self) -> tuple[Tensor, Tensor, Tensor]:
        """greater, tied and tied_before of every pair; those given up get the size of the gallery, 0, 0."""
        given_up = ~self.follow
        self.greater[given_up] = len(self.comparison.gallery)
        self.tied[given_up], self.before[given_up] = 0, 0
        return self.greater, self.tied, self.before


def _scalar(value: float, device: torch.device) -> Tensor:
    return torch.tensor(value, dtype=torch.float32, device=device)


def _descending_keys(row: Tensor, value: Tensor) -> Tensor:
    """int64 that sort by row, then by float32 value from the largest down.

    The bits of a float32 are in order of size once those of negative numbers are flipped.
    """
    bits = value.view(torch.int32)
    ordered = torch.where(bits >= 0, bits, bits ^ 0x7FFFFFFF).to(torch.int64)
    return (row << 32) + (2**31 - 1 - ordered)
