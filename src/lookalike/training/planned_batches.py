"""The batches of a loss that plans them itself from vectors of all training images."""

from collections.abc import Callable, Iterator

import numpy as np
from torch import Tensor

from lookalike.config.schema import BatchSettings
from lookalike.losses.batch_planner import BatchPlanner


class PlannedBatches:
    """What `loss` plans for each epoch; the plan is a function of the seed, the epoch and the network.

    Args:
        labels: of the training images.
        vectors: embeddings of all training images by the present network, or, given True, pooled vectors.
        epochs: of the whole training.
    """

    def __init__(
        self,
        loss: BatchPlanner,
        labels: Tensor,
        batch: BatchSettings,
        *,
        vectors: Callable[[bool], Tensor],
        epochs: int,
        seed: int,
    ) -> None:
        self.loss, self.labels, self.batch, self.vectors = loss, labels, batch, vectors
        self.epochs, self.seed = epochs, seed
        self._rows: list[list[int]] = []

    def set_epoch(self, epoch: int) -> None:
        """Embeds the training images if the loss needs them, and plans the epoch."""
        done = (epoch - 1) / max(self.epochs, 1)
        if self.loss.needs_update(epoch, done):
            self.loss.update(self.vectors(self.loss.reads_pooled), self.labels.cpu())
        self._rows = self.loss.plan(
            self.labels.numpy(),
            np.random.default_rng((self.seed, epoch)),
            done=done,
            classes=self.batch.classes,
            per_class=self.batch.per_class,
        )

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self._rows)


def check_plan(loss: BatchPlanner, labels: Tensor, batch: BatchSettings) -> None:
    """Refuses batches that the loss cannot fill, before anything is embedded.

    Raises:
        ArgumentError: with the setting to change.
    """
    draws = np.random.default_rng(0)
    loss.plan(labels.numpy(), draws, done=1.0, classes=batch.classes, per_class=batch.per_class)
