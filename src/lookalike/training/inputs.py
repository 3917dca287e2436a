"""Inputs of the training loop: decoded images, or cached outputs of the network's frozen part."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.data.dataloader import ImageLoader, decoding_workers, embedding_workers
from lookalike.data.dataset import LabeledImages
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.transforms import EvalTransform, TrainTransform
from lookalike.models.views import image_views
from lookalike.training.context import RunContext
from lookalike.training.feature_cache import FeatureCache
from lookalike.training.trainable import TrainablePart


class Batches(Protocol):
    """Which rows meet in each batch of an epoch; see `lookalike.data.samplers`."""

    def set_epoch(self, epoch: int) -> None: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[list[int]]: ...


class Inputs(Protocol):
    """Inputs of a `TrainablePart`, with the table of their images and the labels; rows are numbered 0..len-1."""

    table: LabeledImages
    labels: Tensor

    def __len__(self) -> int: ...

    def prepare(self, epoch: int) -> None:
        """Chooses the epoch, from 1, whose augmentation `batches` draws, and computes what it needs."""

    def batches(self, rows: Iterable[list[int]]) -> Iterator[tuple[Tensor, Tensor]]:
        """For each list of rows: augmented inputs and their labels."""

    def ensure_views(self, views: int) -> None:
        """Computes what `iter_eval` of that many views reads."""

    def iter_eval(
        self, first: int = 0, end: int | None = None, *, views: int = 1
    ) -> Iterator[tuple[Tensor, ...]]:
        """Each input from row `first` to before `end` once, in order, not augmented: one tensor per view."""


class CachedInputs:
    """Rows of cached views of the images.

    View 0 is the image itself. The first epochs go through the views, one per epoch, so that training begins
    before the third view is computed (the first two come from one decode); from then on each epoch draws one view
    per image.

    Args:
        cache: the arrays.
        views: how many there are.
        block: rows that `iter_eval` gives at a time.
    """

    def __init__(
        self, cache: FeatureCache, table: LabeledImages, *, views: int = 1, seed: int = 0, block: int = 256
    ) -> None:
        self.cache, self.views, self.seed, self.block = cache, views, seed, block
        self.rows = cache.rows(table)
        self.table = table
        self.labels = torch.from_numpy(table.labels.copy())
        self._drawn = np.zeros(len(table), dtype=np.int64)
        self._arrays: list[NDArray[Any]] = []

    def __len__(self) -> int:
        return len(self.rows)

    def prepare(self, epoch: int) -> None:
        """See `Inputs`; views are drawn from (seed, epoch)."""
        numbers = range(min(epoch, self.views))
        self.cache.ensure(range(min(max(epoch, 2), self.views)))
        self._arrays = [self.cache.array(view) for view in numbers]
        self._drawn = np.full(len(self), epoch - 1)
        if epoch > self.views:
            self._drawn = np.random.default_rng([self.seed, epoch]).integers(self.views, size=len(self))

    def batches(self, rows: Iterable[list[int]]) -> Iterator[tuple[Tensor, Tensor]]:
        """See `Inputs`."""
        for batch in map(np.array, rows):
            yield torch.from_numpy(self._take(batch)), self.labels[batch]

    def _take(self, batch: NDArray[np.int64]) -> NDArray[Any]:
        rows = self.rows[batch]
        if len(self._arrays) == 1:
            return np.take(self._arrays[0], rows, axis=0)
        drawn, (first, *_) = self._drawn[batch], self._arrays
        taken = np.empty((len(batch), *first.shape[1:]), dtype=first.dtype)
        for number, array in enumerate(self._arrays):
            taken[drawn == number] = array[rows[drawn == number]]
        return taken

    def ensure_views(self, views: int) -> None:
        """See `Inputs`."""
        self.cache.ensure(range(views))

    def iter_eval(
        self, first: int = 0, end: int | None = None, *, views: int = 1
    ) -> Iterator[tuple[Tensor, ...]]:
        """See `Inputs`; view 1 must be the flipped image where two are asked for."""
        arrays, rows = [self.cache.array(view) for view in range(views)], self.rows[first:end]
        for start in range(0, len(rows), self.block):
            block = rows[start : start + self.block]
            yield tuple(torch.from_numpy(np.take(array, block, axis=0)) for array in arrays)


class ImageInputs:
    """Images decoded and augmented in worker processes as they are needed.

    Of `batches` and of `iter_eval` one pass can be under way at a time; a new one ends the one before.

    Args:
        workers: decoding processes; None: see `decoding_workers` for `batches`, `embedding_workers` for `iter_eval`.
        device: where the network runs.
    """

    def __init__(
        self,
        table: LabeledImages,
        transform: TrainTransform,
        *,
        seed: int,
        workers: int | None,
        device: torch.device | str = "cpu",
        block: int = 64,
    ) -> None:
        self.table, self.block = table, block
        self.labels = torch.from_numpy(table.labels.copy())
        self._augmented = ImageDataset(table, transform, seed=seed)
        plain = ImageDataset(table, EvalTransform(transform.preprocessing))
        self._batches = ImageLoader(self._augmented, decoding_workers(workers), device=device)
        self._plain = ImageLoader(plain, embedding_workers(workers, device), device=device)

    def __len__(self) -> int:
        return len(self.table)

    def prepare(self, epoch: int) -> None:
        """See `Inputs`; augmentation is drawn from (seed, epoch, row)."""
        self._augmented.set_epoch(epoch)

    def batches(self, rows: Iterable[list[int]]) -> Iterator[tuple[Tensor, Tensor]]:
        """See `Inputs`; decoding processes of `iter_eval`, which read the same images at the start, end first."""
        self._plain.close()
        return self._batches.batches(rows)

    def ensure_views(self, views: int) -> None:
        """See `Inputs`; nothing is computed ahead."""

    def iter_eval(
        self, first: int = 0, end: int | None = None, *, views: int = 1
    ) -> Iterator[tuple[Tensor, ...]]:
        """See `Inputs`."""
        rows = list(range(len(self))[first:end])
        blocks = (rows[start : start + self.block] for start in range(0, len(rows), self.block))
        for images, _labels in self._plain.batches(blocks):
            yield image_views(images, views)


def build_cache(context: RunContext, trainable: TrainablePart, table: LabeledImages) -> FeatureCache:
    """The cache of the network's frozen part for the images of `table`; modes partial and frozen."""
    return FeatureCache(context, trainable.frozen_part(), table, build_train_transform(context, trainable))


def build_inputs(
    context: RunContext, trainable: TrainablePart, table: LabeledImages, cache: FeatureCache | None
) -> Inputs:
    """Inputs of the trainable part for the images of `table`.

    Args:
        cache: of the frozen part; None in mode finetune, which decodes.
    """
    seed, data = context.experiment.seed, context.experiment.data
    if cache is None:
        transform = build_train_transform(context, trainable)
        return ImageInputs(table, transform, seed=seed, workers=data.workers, device=context.fabric.device)
    if not cache.covers(table):
        cache = cache.of_table(table)  # validation on the test classes
    views = context.experiment.train.cached_views if context.mode == "partial" else 1
    return CachedInputs(cache, table, views=views, seed=seed)


def build_train_transform(context: RunContext, trainable: TrainablePart) -> TrainTransform:
    """The random crops of the experiment, at the network's input size."""
    data = context.experiment.data
    return TrainTransform(
        trainable.embedder.preprocessing,
        scale=data.crop_scale,
        flip=0.5 if data.flip else 0.0,
    )
