"""The k largest numbers of each row.

Letters: b rows, P numbers in a row, S of them looked at first.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

LONG_ROW = 4096
"""Numbers in a row from which the largest are looked for among those that reach a guessed bar."""


def largest(keys_bP: Tensor, k: int) -> Tensor:
    """Columns (b, k) of the k largest keys of each row; on the CPU they rise, and of ties the first are taken.

    `topk` moves pairs of key and column about. On the CPU it is faster to find the k-th largest key alone and
    to look where the keys are not below it, and in long rows to do so among the few that are large at all.
    """
    if keys_bP.device.type != "cpu":
        return keys_bP.topk(k, dim=1, sorted=False).indices
    keys = keys_bP.numpy()
    if keys.shape[1] < LONG_ROW:
        return torch.from_numpy(_partitioned(keys, k))
    chosen = np.empty((len(keys), k), dtype=np.int64)
    for row, key_P in enumerate(keys):
        columns = _promising(key_P, k)
        chosen[row] = columns[_partitioned(key_P[None, columns], k)[0]]
    return torch.from_numpy(chosen)


def _partitioned(keys: NDArray[Any], k: int) -> NDArray[np.int64]:
    """`largest` by a partition of whole rows; NaN counts as the largest."""
    size = keys.shape[1]
    kept = ~(keys < np.partition(keys, size - k, axis=1)[:, size - k, None])
    for row in np.flatnonzero(kept.sum(axis=1, dtype=np.int32) > k):  # ties
        rising = np.argsort(keys[row, ::-1], kind="stable")
        kept[row] = False
        kept[row, size - 1 - rising[-k:]] = True
    return np.flatnonzero(kept).reshape(-1, k) - np.arange(0, kept.size, size)[:, None]


def _promising(key_P: NDArray[Any], k: int) -> NDArray[np.int64]:
    """Columns with the k largest keys among them, a few more than k if one key in 16 tells where these begin."""
    sample_S = key_P[::16]
    expected = len(sample_S) * k / len(key_P)
    rank = math.ceil(expected + 4 * math.sqrt(expected))  # fewer than k keys reach it once in 30,000 rows
    if rank <= len(sample_S):
        reached = ~(key_P < np.partition(sample_S, len(sample_S) - rank)[len(sample_S) - rank])
        columns = np.flatnonzero(reached)
        if len(columns) >= k:
            return columns
    return np.arange(len(key_P))
