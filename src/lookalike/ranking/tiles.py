"""Counting inside one tile of similarities: how many negatives of the tile beat each followed positive.

A negative above both thresholds of a positive (see `pairs`) is ahead, one below both is not; one between them
is compared exactly. Rows whose largest negative lies below a threshold need no counting for it, which with
trained embeddings is most of them.

Comparisons write one byte an entry into reused memory, and bytes are added eight at a time as 64-bit words.

Legend: B queries of the tile, M gallery rows, L (query, positive) pairs followed in it, K longest list.
"""

import numpy as np
import torch
from torch import Tensor

from lookalike.ranking.bits import count_true, descending_keys
from lookalike.ranking.pairs import CHUNK, Pairs

_FEW_ROWS = 0.05
_FEW_CANDIDATES = 0.1
_CROWDED = 64


class Counter:
    """Counts of every pair, fed tile by tile.

    Args:
        pairs: where counts are added.
        own: gallery position of each query's own row, or -1; None without any.
    """

    def __init__(self, pairs: Pairs, own: np.ndarray | None) -> None:
        self.pairs, self._device = pairs, pairs.index.device
        self.own = None if own is None else torch.from_numpy(own).to(self._device)
        self._memory: dict[str, Tensor] = {}

    def _reuse(self, name: str, rows: int, columns: int, dtype: torch.dtype) -> Tensor:
        """A matrix on memory that was used before: fresh memory costs more than the arithmetic."""
        held = self._memory.get(name)
        if held is None or held.numel() < rows * columns:
            held = torch.empty(rows * columns, dtype=dtype, device=self._device)
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
        pair = self.pairs.of(first, first + rows)
        column = self.pairs.index[pair] - begin
        inside = ((column >= 0) & (column < columns)).nonzero()[:, 0]
        sims[self.pairs.owner[pair][inside] - first, column[inside]] = -torch.inf
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
        pairs, here = self.pairs, self.pairs.of(first, last)
        top = sims.amax(dim=1)
        needed = pairs.follow[here] & (pairs.low[here] < top[pairs.owner[here] - first])
        self._spread(sims, needed.nonzero()[:, 0] + here.start, first, begin)
        pairs.follow[here] = pairs.best[here] | (pairs.greater[here] <= pairs.bound[here])

    def _spread(self, sims: Tensor, pair_L: Tensor, first: int, begin: int) -> None:
        """Chooses the cheapest way to count for these pairs."""
        few = _FEW_ROWS * len(sims)
        if len(pair_L) <= few:
            return self._listed(sims, pair_L, first, begin)
        mask, number = self._above_lowest(sims, pair_L, first)
        if number > _FEW_CANDIDATES * sims.numel():
            leads = self.pairs.leader[self.pairs.owner[pair_L]] == pair_L
            if int(leads.sum()) > few:
                leader_B = torch.full((len(sims),), -1, dtype=torch.int64, device=sims.device)
                leader_B[self.pairs.owner[pair_L[leads]] - first] = pair_L[leads]
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
        lowest.scatter_reduce_(0, self.pairs.owner[pair_L] - first, self.pairs.low[pair_L], "amin")
        dim = 1 if sims.is_contiguous() else 0
        mask = self._compare(sims if dim == 1 else sims.T, lowest.unsqueeze(dim), "maybe")
        return mask, int(count_true(mask, dim).sum())

    def _give_up(self, sims: Tensor, pair_L: Tensor, first: int) -> Tensor:
        """Drops pairs that more negatives of this tile beat than their limit allows; returns the others.

        A row is cut into groups. If the (limit + 1)-th largest of the groups' maxima lies above a positive,
        so do at least limit + 1 negatives, each in a group of its own.
        """
        longest = int(self.pairs.bound[pair_L].max()) + 1
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
        row = self.pairs.owner[pair_L] - first
        lost = (bar[row, self.pairs.bound[pair_L]] > self.pairs.high[pair_L]) & ~self.pairs.best[pair_L]
        self.pairs.greater[pair_L[lost]] = self.pairs.bound[pair_L[lost]] + 1
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
        keys, order = descending_keys(row, sims[row, column]).sort()
        self._listed(sims, self._search(keys, column[order], pair_L, first, begin), first, begin)

    def _whole(self, sims: Tensor, leader_B: Tensor, first: int, begin: int) -> None:
        """One pair of every query, the tile compared as it lies; -1 for none."""
        dim = 1 if sims.is_contiguous() else 0
        has = leader_B >= 0
        safe = leader_B.clamp_min(0)
        infinite = torch.tensor(torch.inf, device=sims.device)
        high = torch.where(has, self.pairs.high[safe], infinite)
        low = torch.where(has, self.pairs.low[safe], infinite)
        stored = sims if dim == 1 else sims.T
        above = self._compare(stored, high.unsqueeze(dim), "above")
        maybe = self._compare(stored, low.unsqueeze(dim), "maybe")
        number = count_true(above, dim)[: len(leader_B)]
        count = count_true(maybe, dim)[: len(leader_B)] - number
        unsure = (count > 0) & has
        crowded = unsure & (count > _CROWDED)
        self.pairs.greater.index_add_(0, safe, torch.where(has & ~crowded, number, 0))
        rows = (unsure & ~crowded).nonzero()[:, 0]
        if len(rows):
            if dim == 1:
                band = maybe[rows] & ~above[rows]
            else:
                band = (maybe.index_select(1, rows) & ~above.index_select(1, rows)).T
            which, column = band.nonzero(as_tuple=True)
            self.pairs.settle(leader_B[rows[which]], column + begin)
        self._listed(sims, leader_B[crowded], first, begin)

    def _listed(self, sims: Tensor, pair_L: Tensor, first: int, begin: int) -> None:
        """Pairs one by one, each with a copy of its query's row."""
        step = max(1, CHUNK // sims.shape[1])
        for at in range(0, len(pair_L), step):
            self._copied(sims, pair_L[at : at + step], first, begin)

    def _copied(self, sims: Tensor, pair_L: Tensor, first: int, begin: int) -> None:
        rows = sims.index_select(0, self.pairs.owner[pair_L] - first)
        if rows.shape[1] % 8:
            rows = torch.nn.functional.pad(rows, (0, -rows.shape[1] % 8), value=-torch.inf)
        above, maybe = (
            self._reuse(name, rows.shape[0], rows.shape[1], torch.bool) for name in ("above", "maybe")
        )
        torch.gt(rows, self.pairs.high[pair_L, None], out=above)
        torch.gt(rows, self.pairs.low[pair_L, None], out=maybe)
        number = count_true(above, 1)
        self.pairs.greater.index_add_(0, pair_L, number)
        count = count_true(maybe, 1) - number
        unsure = (count > 0).nonzero()[:, 0]
        if len(unsure):
            band = maybe[unsure] & ~above[unsure]
            if int(count.max()) > _CROWDED:
                self.pairs.settle_crowd(pair_L[unsure], band, begin)
            else:
                which, column = band.nonzero(as_tuple=True)
                self.pairs.settle(pair_L[unsure[which]], column + begin)

    def _largest(self, sims: Tensor, pair_L: Tensor, first: int, begin: int) -> Tensor:
        """Many entries above many pairs: the largest of each row, sorted; returns pairs that need more.

        A list one longer than the limit decides every pair: a count that reaches its end ends the pair.
        """
        length = min(int(self.pairs.bound[pair_L].max()) + 1, sims.shape[1])
        values, columns = sims.contiguous().topk(length, dim=1)
        row = torch.arange(len(sims), device=sims.device)[:, None]
        keys = descending_keys(row, values).reshape(-1)
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
        row = self.pairs.owner[pair_L] - first
        rows = torch.arange(int(row[-1]) + 1 if len(row) else 0, device=row.device)
        start = torch.searchsorted(keys, rows << 32)[row]
        end = torch.searchsorted(keys, descending_keys(row, self.pairs.low[pair_L]))
        maybe = end - start
        # nearly always the last of them is above the other threshold too, and all are ahead for sure
        top = descending_keys(row, self.pairs.high[pair_L])
        doubt = (
            ((maybe > 0) & (keys[(end - 1).clamp_min(0)] >= top)).nonzero()[:, 0] if len(keys) else rows[:0]
        )
        number = maybe.clone()
        number[doubt] = torch.searchsorted(keys, top[doubt]) - start[doubt]
        wanted = self.pairs.best[pair_L] | (number <= self.pairs.bound[pair_L])
        more = wanted & (maybe - number > _CROWDED)
        if cut:
            more |= wanted & (maybe == cut)
        number = torch.where(more, 0, number)
        self.pairs.greater.index_add_(0, pair_L, number)
        unsure = ((maybe > number) & ~more).nonzero()[:, 0]
        if len(unsure):
            width = (maybe - number)[unsure]
            which = torch.repeat_interleave(unsure, width)
            within = torch.arange(len(which), device=row.device)
            within -= torch.repeat_interleave(width.cumsum(0) - width, width)
            self.pairs.settle(pair_L[which], column[start[which] + number[which] + within] + begin)
        return pair_L[more]
