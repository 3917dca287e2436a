"""Losses that choose the batches of each epoch themselves, from vectors of all training images.

Before an epoch, training calls `update` when `needs_update` says so, and then `plan`; see `training.planned_batches`.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from lookalike.losses.base import MetricLoss

Rows = NDArray[np.int64]


class BatchPlanner(MetricLoss):
    """A loss of pairs or triplets whose training images meet by what the network makes of them."""

    @property
    @abstractmethod
    def reads_pooled(self) -> bool:
        """Whether `update` takes the pooled vectors before the projection, instead of the embeddings."""

    @abstractmethod
    def needs_update(self, epoch: int, done: float) -> bool:
        """Whether `update` has to be called before `epoch`, from 1; `done` is the share of epochs before it."""

    @abstractmethod
    def update(self, vectors_ND: Tensor, labels_N: Tensor) -> None:
        """Computes again what the batches depend on, such as clusters of the images."""

    @abstractmethod
    def plan(
        self, labels_N: Rows, draws: Generator, *, done: float, classes: int, per_class: int
    ) -> list[list[int]]:
        """The rows of each batch of an epoch, of at most `classes` classes with at most `per_class` images each.

        Raises:
            ArgumentError: batches of that shape are not possible.
        """


def rows_by_class(labels_N: Rows, rows: Rows) -> dict[int, Rows]:
    """Of `rows`, those of each class that has at least two."""
    found = {int(c): rows[labels_N[rows] == c] for c in np.unique(labels_N[rows])}
    return {c: members for c, members in found.items() if len(members) > 1}


def draw_images(
    members: dict[int, Rows], chosen: Sequence[Any] | NDArray[Any], per_class: int, draws: Generator
) -> list[int]:
    """Random images of the chosen classes, none twice."""
    return [row for c in chosen for row in draws.permutation(members[int(c)])[:per_class].tolist()]
