"""The two sides of an evaluation: which rows of what are queries, and which are gallery; with checks of both."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lookalike.errors import ArgumentError
from lookalike.ranking import QuerySet

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Side:
    """Rows of a matrix (N, D) that take part, by number."""

    matrix: Any
    rows: Integers

    @property
    def whole(self) -> bool:
        """Whether these are all rows, in order."""
        return np.array_equal(self.rows, np.arange(len(self.matrix)))

    def vectors(self) -> Any:
        """The rows, without a copy where they are all of them."""
        return self.matrix if self.whole else self.matrix[self.rows]


@dataclass(frozen=True)
class Sides:
    """Queries and gallery.

    Attributes:
        query_set: their labels, and the gallery position of each query's own row.
        ignored: rows left out for their label, of `queries` and of `gallery`.
        separate: whether the gallery is another matrix.
    """

    queries: Side
    gallery: Side
    query_set: QuerySet
    ignored: dict[str, int]
    separate: bool

    @property
    def same(self) -> bool:
        """Whether every query is a gallery row and the other way round, in one order."""
        return self.queries.matrix is self.gallery.matrix and np.array_equal(
            self.queries.rows, self.gallery.rows
        )


def choose_sides(
    embeddings: Any,
    labels: Any,
    *,
    query: Any,
    gallery: Any,
    gallery_embeddings: Any,
    gallery_labels: Any,
    ignore_labels: Collection[int],
) -> Sides:
    """The sides that the arguments of `evaluate` name.

    Raises:
        ArgumentError: what does not fit together, with what was expected.
    """
    count = count_rows(embeddings, "embeddings")
    classes = check_labels(labels, count, "labels", "embeddings", ignore_labels)
    if (gallery_embeddings is None) != (gallery_labels is None):
        raise ArgumentError("gallery_embeddings and gallery_labels belong together; give both or none")
    separate = gallery_embeddings is not None
    if separate and gallery is not None:
        raise ArgumentError("gallery= selects rows of embeddings; it cannot go with gallery_embeddings=")
    chosen_queries = select_rows(query, count, "query")
    query_rows = drop_ignored(chosen_queries, classes, "query", ignore_labels)
    source, gallery_classes = embeddings, classes
    if separate:
        source, rows = gallery_embeddings, count_rows(gallery_embeddings, "gallery_embeddings")
        gallery_classes = check_labels(
            gallery_labels, rows, "gallery_labels", "gallery_embeddings", ignore_labels
        )
    chosen_gallery = select_rows(gallery, len(gallery_classes), "gallery")
    gallery_rows = drop_ignored(chosen_gallery, gallery_classes, "gallery", ignore_labels)
    own = np.full(len(query_rows), -1)
    if not separate:
        position = np.full(count, -1)
        position[gallery_rows] = np.arange(len(gallery_rows))
        own = position[query_rows]
    ignored = {
        "queries": len(chosen_queries) - len(query_rows),
        "gallery": len(chosen_gallery) - len(gallery_rows),
    }
    query_set = QuerySet(classes[query_rows], gallery_classes[gallery_rows], own)
    return Sides(Side(embeddings, query_rows), Side(source, gallery_rows), query_set, ignored, separate)


def count_rows(matrix: Any, what: str) -> int:
    """N of an (N, D) matrix."""
    shape = getattr(matrix, "shape", None)
    if shape is None or len(shape) != 2 or 0 in tuple(shape):
        found = "no shape" if shape is None else f"shape {tuple(shape)}"
        raise ArgumentError(
            f"{what} has {found}; expected a tensor or array (N, D) with at least one row and column"
        )
    return int(shape[0])


def check_labels(labels: Any, rows: int, what: str, of: str, ignore_labels: Collection[int]) -> Integers:
    """Labels (rows,) of any integer type and byte order as int64, at least 0 except for `ignore_labels`."""
    array = labels.detach().cpu().numpy() if torch.is_tensor(labels) else np.asarray(labels)
    if array.shape != (rows,):
        raise ArgumentError(f"{what} has shape {array.shape}; expected ({rows},), one label per row of {of}")
    if not np.issubdtype(array.dtype, np.integer):
        raise ArgumentError(
            f"{what} has dtype {array.dtype}; expected integers; of names, "
            "numpy.unique(labels, return_inverse=True)[1] are the class numbers"
        )
    if int(array.max()) > np.iinfo(np.int64).max:
        raise ArgumentError(
            f"{what} has values up to {array.max()}; at most 2^63 - 1 fits; renumber the classes"
        )
    array = array.astype(np.int64)
    negative = (array < 0) & ~np.isin(array, list(ignore_labels))
    if negative.any():
        first = int(negative.argmax())
        raise ArgumentError(
            f"{what} is below 0 in {int(negative.sum()):,} rows (first: row {first}, label {array[first]}); "
            f"class numbers are 0 or more; to leave these rows out, pass ignore_labels=[{array[first]}] "
            f"(command line: --ignore-label={array[first]})"
        )
    return array


def select_rows(which: Any, rows: int, what: str) -> Integers:
    """Row numbers of a mask or an index array, in the order given; all rows for None."""
    if which is None:
        return np.arange(rows)
    array = which.detach().cpu().numpy() if torch.is_tensor(which) else np.asarray(which)
    if array.dtype == bool:
        if array.shape != (rows,):
            raise ArgumentError(f"{what} is a mask of shape {array.shape}; expected ({rows},)")
        array = array.nonzero()[0]
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer) or len(array) == 0:
        raise ArgumentError(f"{what} selects no rows; give a boolean mask or row numbers")
    array = array.astype(np.int64)
    if array.min() < 0 or array.max() >= rows:
        raise ArgumentError(
            f"{what} has row {array.max() if array.max() >= rows else array.min()}, but there are {rows} rows"
        )
    if len(np.unique(array)) != len(array):
        raise ArgumentError(f"{what} has a row twice; give every row once")
    return array


def drop_ignored(rows: Integers, labels: Integers, what: str, ignore_labels: Collection[int]) -> Integers:
    """`rows` without those of the ignored labels."""
    kept: Integers = rows[~np.isin(labels[rows], list(ignore_labels))]
    if len(kept) == 0:
        raise ArgumentError(f"every {what} row has an ignored label ({list(ignore_labels)}); nothing is left")
    return kept
