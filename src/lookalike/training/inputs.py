"""What the training loop reads: images, cached activations, or cached pooled vectors.

The three training modes differ only in how much of the network has been run beforehand:

| mode     | cached for each image           | the loop runs                               |
|----------|-----------------------------------|---------------------------------------------|
| finetune | nothing                           | the whole network on augmented images     |
| partial  | activations after `frozen_stages` | the other stages, pooling, projection       |
| frozen   | the pooled vector                 | the projection                              |

`TrainablePart` is the part of the network behind the cache; `Inputs` yields what that part takes.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.data.dataloader import ImageLoader, decoding_workers, embedding_workers
from lookalike.data.dataset import LabeledImages
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.transforms import TrainTransform, eval_transform
from lookalike.models.views import image_views


class Batches(Protocol):
    """Which rows meet in each batch of an epoch; see `lookalike.data.samplers`."""

    def set_epoch(self, epoch: int) -> None: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[list[int]]: ...


class Inputs(Protocol):
    """Inputs of a trainable, with the table they are of and its labels; rows are numbered 0..len-1."""

    table: LabeledImages
    labels: Tensor

    def __len__(self) -> int: ...

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch, from 1, whose augmentation `batches` draws."""

    def batches(self, rows: Iterable[list[int]]) -> Iterator[tuple[Tensor, Tensor]]:
        """For each list of rows: augmented inputs and their labels."""

    def iter_eval(
        self, first: int = 0, end: int | None = None, *, views: int = 1
    ) -> Iterator[tuple[Tensor, ...]]:
        """Each input from row `first` to before `end` once, in order, not augmented: one tensor per view."""

    def names(self, rows: list[int]) -> list[str]:
        """The images' paths, to name them in errors."""


class CachedInputs:
    """Rows of arrays (N, ...) that were computed once: one for each view of the images.

    View 0 is the image as it is. The first epochs go through the views, one epoch each, so that training
    begins before the second view is made; from then on each epoch draws one for each image.

    Args:
        view: gives the array of a view, and makes it if need be.
        views: how many there are.
        rows: of the arrays, one for each image of `table`.
    """

    def __init__(
        self,
        view: Callable[[int], NDArray[np.generic]],
        table: LabeledImages,
        rows: NDArray[np.int64],
        *,
        views: int = 1,
        seed: int = 0,
        block: int = 256,
    ) -> None:
        self.view, self.views = view, views
        self.rows, self.seed, self.block = rows, seed, block
        self.table = table
        self.labels = torch.from_numpy(table.labels.copy())
        self.set_epoch(1)

    def __len__(self) -> int:
        return len(self.rows)

    def set_epoch(self, epoch: int) -> None:
        """See `Inputs`; views are drawn from (seed, epoch)."""
        self._arrays = [self.view(number) for number in range(min(epoch, self.views))]
        self._drawn = np.full(len(self), epoch - 1)
        if epoch > self.views:
            self._drawn = np.random.default_rng([self.seed, epoch]).integers(self.views, size=len(self))

    def batches(self, rows: Iterable[list[int]]) -> Iterator[tuple[Tensor, Tensor]]:
        """See `Inputs`."""
        for batch in map(np.array, rows):
            yield torch.from_numpy(self._take(batch)), self.labels[batch]

    def _take(self, batch: NDArray[np.int64]) -> NDArray[np.generic]:
        rows = self.rows[batch]
        if len(self._arrays) == 1:
            return np.take(self._arrays[0], rows, axis=0)
        drawn, (first, *_) = self._drawn[batch], self._arrays
        taken = np.empty((len(batch), *first.shape[1:]), dtype=first.dtype)
        for number, array in enumerate(self._arrays):
            taken[drawn == number] = array[rows[drawn == number]]
        return taken

    def iter_eval(
        self, first: int = 0, end: int | None = None, *, views: int = 1
    ) -> Iterator[tuple[Tensor, ...]]:
        """See `Inputs`; view 1 must be the mirror image where two are asked for."""
        arrays, rows = [self.view(number) for number in range(views)], self.rows[first:end]
        for start in range(0, len(rows), self.block):
            block = rows[start : start + self.block]
            yield tuple(torch.from_numpy(np.take(array, block, axis=0)) for array in arrays)

    def names(self, rows: list[int]) -> list[str]:
        """See `Inputs`."""
        return [self.table.paths[row] for row in rows]


class ImageInputs:
    """Images decoded and augmented in worker processes as they are needed.

    Of `batches` and of `whole` one pass can be under way at a time; a new one ends the one before.

    Args:
        workers: decoding processes; None: see `decoding_workers` for `batches`, `embedding_workers` for `whole`.
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
        as_they_are = ImageDataset(table, eval_transform(transform.preprocessing))
        self._batches = ImageLoader(self._augmented, decoding_workers(workers))
        self._whole = ImageLoader(as_they_are, embedding_workers(workers, device))

    def __len__(self) -> int:
        return len(self.table)

    def set_epoch(self, epoch: int) -> None:
        """See `Inputs`; augmentation is drawn from (seed, epoch, row)."""
        self._augmented.set_epoch(epoch)

    def batches(self, rows: Iterable[list[int]]) -> Iterator[tuple[Tensor, Tensor]]:
        """See `Inputs`."""
        return self._batches.batches(rows)

    def iter_eval(
        self, first: int = 0, end: int | None = None, *, views: int = 1
    ) -> Iterator[tuple[Tensor, ...]]:
        """See `Inputs`."""
        rows = list(range(len(self))[first:end])
        blocks = (rows[start : start + self.block] for start in range(0, len(rows), self.block))
        for images, _labels in self._whole.batches(blocks):
            yield image_views(images, views)

    def names(self, rows: list[int]) -> list[str]:
        """See `Inputs`."""
        return [self.table.paths[row] for row in rows]
