"""Labels of queries and gallery, and the positives that follow from them.

Legend: Q queries, N gallery rows, P (query, positive) pairs.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class QuerySet:
    """Which gallery rows are right for which query.

    Attributes:
        labels: (Q,) class of each query.
        gallery_labels: (N,) class of each gallery row.
        own: (Q,) gallery position of each query's own row, which is never retrieved; -1 for none.
    """

    labels: Integers
    gallery_labels: Integers
    own: Integers

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def _by_label(self) -> tuple[Integers, Integers]:
        """Gallery rows in order of their label, and these labels."""
        order = np.argsort(self.gallery_labels, kind="stable")
        return order, self.gallery_labels[order]

    def count_positives(self) -> Integers:
        """R of each query, (Q,)."""
        _, ordered = self._by_label
        count = np.searchsorted(ordered, self.labels, side="right")
        count -= np.searchsorted(ordered, self.labels, side="left")
        return count - (self.own >= 0)

    def positives(self, queries: Integers) -> tuple[Integers, Integers]:
        """All pairs of some queries: position in `queries` (P,), ascending, and gallery row (P,), ascending."""
        order, ordered = self._by_label
        first = np.searchsorted(ordered, self.labels[queries], side="left")
        size = np.searchsorted(ordered, self.labels[queries], side="right") - first
        owner = np.repeat(np.arange(len(queries)), size)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(size) - size, size)
        index = order[np.repeat(first, size) + within]
        keep = index != self.own[queries][owner]
        return owner[keep], index[keep]
