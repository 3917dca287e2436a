"""Cached activations: the outputs of a network's frozen part for views of every image, computed once and kept on disk.

View 0 is the image as evaluation shows it, view 1 its horizontal flip (unless the crops never flip), and each further
view a random crop drawn from (seed, view). Each view is an entry of its own in `<cache>/activations`.
"""

from collections.abc import Iterator
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lookalike.data.dataset import LabeledImages
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.transforms import EvalTransform, TrainTransform
from lookalike.embedding import map_images
from lookalike.training.context import RunContext
from lookalike.training.trainable import FrozenPart
from lookalike.utils.array_store import ArrayStore
from lookalike.utils.cache_dir import cache_folder, cache_limit, format_size

FORMAT = 1
"""Raised whenever this package computes other numbers for the same key."""
DECIDING = ("torch", "torchvision", "timm", "pillow")
"""Packages whose versions decide the numbers."""
BATCH, BLOCK = 64, 1024


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

    def ensure(self, view: int) -> None:
        """Computes a view unless it is on disk and intact, and opens it.

        Raises:
            FileError: the cache cannot be written; the message names LOOKALIKE_CACHE.
            DataError: an image cannot be read.
        """
        if view in self._arrays:
            return
        context, key = self.context, self.key(view)
        with context.clock.phase("embedding"):
            if context.is_main_process:
                self._fill(view)
            context.processes.barrier(patient=True)
            if not self.store.has(key):  # another machine, whose cache is another folder
                self._fill(view)
            context.processes.barrier(patient=True)
        self._arrays[view] = self.store.open(key)

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

    def _fill(self, view: int) -> None:
        """Writes the view if it is absent or damaged, and removes what exceeds the cache's limit."""
        key, progress = self.key(view), self.context.progress
        self.store.remove_leftovers()
        if self.store.has(key):
            if self.store.is_intact(key):
                return
            progress.say(f"warning: {self.store.path(key)} is damaged; computing it again")

        def waiting() -> None:
            progress.say("another process is computing the same activations; waiting for it")

        with self.store.locked(key, waiting):
            if not self.store.is_intact(key):
                about = f"{self.table.name}: {self.part.output}, {len(self.table)} images, view {view}"
                self.store.write(
                    key, self._compute(view), rows=len(self.table), dtype=self.part.dtype, about=about
                )
        removed = self.store.shrink(cache_limit(), keep=[self.store.path(key), *self._own_paths()])
        if removed:
            size = format_size(sum(entry.size for entry in removed))
            progress.say(
                f"cache: removed {len(removed)} least recently used arrays, {size} (LOOKALIKE_CACHE_LIMIT)"
            )

    def _compute(self, view: int) -> Iterator[NDArray[Any]]:
        """The outputs of the view, block by block."""
        shared = self.part.before_pooling()
        return self._from_images(view) if shared is None else self._from_shared(shared, view)

    def _from_images(self, view: int) -> Iterator[NDArray[Any]]:
        run, flipped = self.part.for_inference(), self._is_flipped(view)
        dataset = ImageDataset(self.table, EvalTransform(self.transform.preprocessing))
        if self._is_cropped(view):
            dataset = ImageDataset(self.table, self.transform, seed=self.context.experiment.seed)
            dataset.set_epoch(view)
        name = "first stages" if self.part.output == "activations" else "embedding images"
        outputs = map_images(
            lambda images: run(images.flip(-1) if flipped else images),
            dataset,
            batch_size=BATCH,
            workers=self.context.experiment.data.workers,
            device=self.context.fabric.device,
            progress=self.context.progress,
            phase=f"{name}, view {view + 1}" if view else name,
        )
        for _, output in outputs:
            yield output.numpy()

    def _from_shared(self, shared: FrozenPart, view: int) -> Iterator[NDArray[Any]]:
        """Pooled vectors from average and maximum, which one pass over the images finds for all poolings."""
        both = FeatureCache(self.context, shared, self.table, self.transform)
        both._fill(view)
        rows = both.store.open(both.key(view))
        for first in range(0, len(rows), BLOCK):
            yield self.part.pool(torch.from_numpy(np.array(rows[first : first + BLOCK]))).numpy()

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
