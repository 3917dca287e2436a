"""Checks of what `evaluate` is given: labels, and the rows that are queries or gallery."""

from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lookalike.errors import ArgumentError

Integers = NDArray[np.int64]


def count_rows(matrix: Any, what: str) -> int:
    """N of an (N, D) matrix."""
    shape = getattr(matrix, "shape", None)
    if shape is None or len(shape) != 2 or 0 in tuple(shape):
        found = "no shape" if shape is None else f"shape {tuple(shape)}"
        raise ArgumentError(f"{what} has {found}; expected a matrix (N, D) with at least one row and column")
    return int(shape[0])


def check_labels(labels: Any, rows: int, what: str, of: str, ignore_labels: Collection[int]) -> Integers:
    """Labels (rows,) of any integer type and byte order as int64, at least 0 except for `ignore_labels`."""
    array = labels.detach().cpu().numpy() if torch.is_tensor(labels) else np.asarray(labels)
    if array.shape != (rows,):
        raise ArgumentError(f"{what} has shape {array.shape}; expected ({rows},), one label per row of {of}")
    if not np.issubdtype(array.dtype, np.integer):
        raise ArgumentError(f"{what} has dtype {array.dtype}; expected integers (class numbers)")
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
