"""Which gallery rows are right for which query.

Legend: Q queries, P (query, positive) pairs in all.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Positives:
    """Gallery rows of each query's class: those of query i are index[offset[i]:offset[i + 1]], ascending.

    `group` holds the class of each query: queries of one class share their positives, but for their own row.
    """

    offset: np.ndarray  # int64 (Q + 1,)
    index: np.ndarray  # int64 (P,)
    group: np.ndarray  # int64 (Q,)

    def counts(self) -> np.ndarray:
        """R of each query."""
        return np.diff(self.offset)

    def owner(self) -> np.ndarray:
        """Query of each pair, (P,)."""
        return np.repeat(np.arange(len(self.offset) - 1), self.counts())

    def slice(self, start: int, stop: int) -> "Positives":
        """Those of queries start..stop-1."""
        low, high = self.offset[start], self.offset[stop]
        return Positives(self.offset[start : stop + 1] - low, self.index[low:high], self.group[start:stop])


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
    return Positives(offset.astype(np.int64), index.astype(np.int64), query_labels)
