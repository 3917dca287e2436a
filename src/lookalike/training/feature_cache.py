"""Cached activations: the outputs of a network's frozen part for views of every image, computed once and kept on disk.

View 0 is the image as evaluation shows it, view 1 its horizontal flip (unless the crops never flip), and each further
view a random crop drawn from (seed, view). Each view is an entry of its own in `<cache>/activations`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.data.dataset import LabeledImages
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.transforms import EvalTransform, TrainTransform
from lookalike.embedding import map_images
from lookalike.errors import ArgumentError
from lookalike.training.context import RunContext
from lookalike.training.launch import is_first_on_machine
from lookalike.training.trainable import FrozenPart
from lookalike.utils.array_store import ArrayStore
from lookalike.utils.cache_dir import cache_folder, cache_limit, format_size

FORMAT = 1
"""Raised whenever this package computes other numbers for the same key."""
DECIDING = ("torch", "torchvision", "timm", "pillow")
"""Packages whose versions decide the numbers."""
BATCH, BLOCK = 64, 1024


def check_range(outputs: Tensor, dtype: type[np.floating[Any]]) -> None:
    """Refuses outputs that would become infinite on disk.

    Raises:
        ArgumentError: with the settings that help.
    """
    largest = float(outputs.abs().max())
    if largest > float(np.finfo(dtype).max):
        raise ArgumentError(
            f"activations of the frozen stages reach {largest:.3g}, which float16, in which they are cached, cannot "
            "hold; set another train.frozen_stages, or train.mode=frozen or finetune"
        )


def activation_store() -> ArrayStore:
    """Where activations are cached."""
    return ArrayStore(cache_folder() / "activations")


class FeatureCache:
    """Views of every image of `table`, as `part` sees them: arrays (len(table), ...).

    `ensure` computes a view that is not on disk, with a progress bar; `array` reads it. With several processes all
    call `ensure`, and the main one computes.
    """

    def __init__(
        self, context: RunContext, part: FrozenPart, table: LabeledImages, transform: TrainTransform
    ) -> None:
        self.context, self.part, self.table, self.transform = context, part, table, transform
        self.store = activation_store()
        self._arrays: dict[int, NDArray[Any]] = {}

    def of_table(self, table: LabeledImages) -> "FeatureCache":
        """The cache of other images."""
        return FeatureCache(self.context, self.part, table, self.transform)

    def covers(self, table: LabeledImages) -> bool:
        """Whether every image of `table` is here."""
        return set(table.paths) <= self._row_of.keys()

    def rows(self, table: LabeledImages) -> NDArray[np.int64]:
        """The row of each image of `table` in the arrays."""
        return np.array([self._row_of[path] for path in table.paths], dtype=np.int64)

    def array(self, view: int) -> NDArray[Any]:
        """A view that `ensure` has prepared, memory-mapped."""
        return self._arrays[view]

    def ensure(self, views: Iterable[int]) -> None:
        """Opens views, and first computes those that are not on disk and intact.

        An image and its flip come from one decode.

        Raises:
            FileError: the cache cannot be written; the message names LOOKALIKE_CACHE.
            DataError: an image cannot be read.
        """
        wanted = [view for view in views if view not in self._arrays]
        if not wanted:
            return
        context = self.context
        with context.clock.phase("embedding"):
            if context.is_main_process:
                self._fill(wanted)
            context.processes.barrier(patient=True)
            if is_first_on_machine() and not all(self.store.has(self.key(view)) for view in wanted):
                self._fill(wanted)  # this is another machine, with another cache
            context.processes.barrier(patient=True)
        self._arrays |= {view: self.store.open(self.key(view)) for view in wanted}

    def key(self, view: int) -> dict[str, Any]:
        """Everything that decides the numbers of a view."""
        crops = self.transform
        return {
            "format": FORMAT,
            "versions": {name: version(name) for name in DECIDING},
            "device": self.context.fabric.device.type,
            "batch_norm": "folded",
            **self.part.key,
            "images": self._image_digest,
            "preprocessing": crops.preprocessing.to_dict(),
            "flipped": self._is_flipped(view),
            "crop": [crops.scale, crops.ratio, crops.flip, self.context.experiment.seed, view]
            if self._is_cropped(view)
            else None,
            "dtype": np.dtype(self.part.dtype).name,
        }

    def _fill(self, views: Sequence[int]) -> None:
        """Writes the views that are absent or damaged, and removes what exceeds the cache's limit."""
        progress, paths = self.context.progress, [self.store.path(self.key(view)) for view in views]
        self.store.remove_leftovers()
        left = [view for view in views if not self._is_usable(view)]
        for _, together in groupby(left, lambda view: view if self._is_cropped(view) else 0):
            self._write(list(together))
        removed = self.store.shrink(cache_limit(), keep=[*paths, *self._own_paths()])
        if removed:
            size = format_size(sum(entry.size for entry in removed))
            progress.say(
                f"cache: removed {len(removed)} least recently used arrays, {size} (LOOKALIKE_CACHE_LIMIT)"
            )

    def _is_usable(self, view: int) -> bool:
        """Whether a view is on disk and intact; says so where it is damaged."""
        key = self.key(view)
        if not self.store.has(key):
            return False
        if not self.store.is_intact(key):
            self.context.progress.warn(f"{self.store.path(key)} is damaged; computing it again")
            return False
        return True

    def _write(self, views: list[int]) -> None:
        """Writes views that come from one decode, unless another process has written them meanwhile."""

        def waiting() -> None:
            self.context.progress.say("another process is computing the same activations; waiting for it")

        with ExitStack() as stack:
            for view in views:  # always in this order, so that two processes never wait for each other
                stack.enter_context(self.store.locked(self.key(view), waiting))
            views = [view for view in views if not self.store.is_intact(self.key(view))]
            if not views:
                return
            appends = [stack.enter_context(self._writing(view)) for view in views]
            for blocks in self._compute(views):
                for append, block in zip(appends, blocks, strict=True):
                    append(block)

    def _writing(self, view: int) -> AbstractContextManager[Callable[[NDArray[Any]], None]]:
        about = f"{self.table.name}: {self.part.output}, {len(self.table)} images, view {view}"
        return self.store.writing(self.key(view), rows=len(self.table), dtype=self.part.dtype, about=about)

    def _compute(self, views: list[int]) -> Iterator[Sequence[NDArray[Any]]]:
        """The outputs of the views, block by block, a block per view."""
        shared = self.part.before_pooling()
        return self._from_images(views) if shared is None else self._from_shared(shared, views)

    def _from_images(self, views: list[int]) -> Iterator[Sequence[NDArray[Any]]]:
        """One pass over the images: the image, its flip, or both, or one random crop."""
        run, flips = self.part.for_inference(), [self._is_flipped(view) for view in views]
        dataset = ImageDataset(self.table, EvalTransform(self.transform.preprocessing))
        if self._is_cropped(views[0]):
            dataset = ImageDataset(self.table, self.transform, seed=self.context.experiment.seed)
            dataset.set_epoch(views[0])
        outputs = map_images(
            lambda images: torch.stack([run(images.flip(-1) if flip else images) for flip in flips]),
            dataset,
            batch_size=BATCH,
            workers=self.context.experiment.data.workers,
            device=self.context.fabric.device,
            progress=self.context.progress,
            phase=self._phase(views),
        )
        for _, output in outputs:
            check_range(output, self.part.dtype)
            yield list(output.numpy())

    def _phase(self, views: list[int]) -> str:
        name = "caching first stages" if self.part.output == "activations" else "embedding images"
        if len(views) > 1:
            return f"{name}, two views"
        return f"{name}, view {views[0] + 1}" if views[0] else name

    def _from_shared(self, shared: FrozenPart, views: list[int]) -> Iterator[Sequence[NDArray[Any]]]:
        """Pooled vectors from average and maximum, which one pass over the images finds for all poolings."""
        both = FeatureCache(self.context, shared, self.table, self.transform)
        both._fill(views)
        arrays = [both.store.open(both.key(view)) for view in views]
        for first in range(0, len(self.table), BLOCK):
            blocks = [torch.from_numpy(np.array(rows[first : first + BLOCK])) for rows in arrays]
            yield [self.part.pool(block).numpy() for block in blocks]

    def _is_flipped(self, view: int) -> bool:
        return view == 1 and self.transform.flip > 0

    def _is_cropped(self, view: int) -> bool:
        return view > 0 and not self._is_flipped(view)

    def _own_paths(self) -> list[Path]:
        return [self.store.path(self.key(view)) for view in self._arrays]

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {path: row for row, path in enumerate(self.table.paths)}

    @cached_property
    def _image_digest(self) -> str:
        return self.table.image_digest()
