"""Results of a frozen part of the network, computed once and kept on disk.

The key is a hash of everything that decides the numbers: the bytes of the images, the weights that run,
the preprocessing, the view and the number type. An entry is a plain .npy file, written under a temporary
name and opened memory-mapped, so it may be larger than memory and a killed run leaves nothing half done.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib.format import open_memmap
from numpy.typing import NDArray
from torch import Tensor, nn

from lookalike.data.dataset import LabeledImages
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.transforms import TrainTransform, eval_transform
from lookalike.embedding import map_images
from lookalike.utils.cache_dir import cache_folder
from lookalike.utils.io import write_atomically
from lookalike.utils.progress import Progress


def weight_digest(modules: list[nn.Module]) -> str:
    """Hash of all parameters and buffers of `modules`, in order."""
    whole = hashlib.blake2b(digest_size=16)
    for module in modules:
        for tensor in module.state_dict().values():
            whole.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()


def stored(key: dict[str, Any], compute: Callable[[Path], None]) -> NDArray[Any]:
    """The array of the cache that `key` names, memory-mapped; `compute` writes its .npy file if it is not there."""
    name = hashlib.blake2b(json.dumps(key, sort_keys=True).encode(), digest_size=16).hexdigest()
    file = cache_folder() / "activations" / f"{name}.npy"
    if not file.exists():
        write_atomically(file, compute)
    array: NDArray[Any] = np.load(file, mmap_mode="r")
    return array.view(np.ndarray)  # a memory map as such looks twice at each result


@dataclass(frozen=True)
class CachedViews:
    """`function` of every image of `table`, shape (len(table), ...): an array for each view of the images.

    View 0 is the image as the test transform shows it, view 1 its mirror image (unless `crops` never
    mirrors), and each further view a random crop of `crops`, drawn from (seed, view). Each is an entry of the
    cache of its own, computed when it is first asked for.
    """

    function: Callable[[Tensor], Tensor]
    table: LabeledImages
    crops: TrainTransform
    key: dict[str, Any]
    seed: int
    dtype: type[np.generic]
    batch_size: int
    workers: int | None
    device: torch.device
    progress: Progress
    phase: str

    def key_of(self, number: int) -> dict[str, Any]:
        """Everything that decides the numbers of a view."""
        crops = self.crops
        return {
            **self.key,
            "images": self.image_digest,
            "preprocessing": crops.preprocessing.to_dict(),
            "mirrored": self._mirrors(number),
            "crop": [crops.scale, crops.ratio, crops.flip, self.seed, number]
            if self._crops(number)
            else None,
            "dtype": np.dtype(self.dtype).name,
        }

    def view(self, number: int) -> NDArray[Any]:
        """One view of all images, from the cache or computed now."""
        return stored(self.key_of(number), lambda file: self._compute(file, number))

    @cached_property
    def image_digest(self) -> str:
        """That of the table, found once for all views."""
        return self.table.image_digest()

    def _mirrors(self, number: int) -> bool:
        return number == 1 and self.crops.flip > 0

    def _crops(self, number: int) -> bool:
        return number > 0 and not self._mirrors(number)

    def _compute(self, file: Path, number: int) -> None:
        dataset = ImageDataset(self.table, eval_transform(self.crops.preprocessing))
        if self._crops(number):
            dataset = ImageDataset(self.table, self.crops, seed=self.seed)
            dataset.set_epoch(number)
        function, mirrors = self.function, self._mirrors(number)
        results = map_images(
            lambda images: function(images.flip(-1) if mirrors else images),
            dataset,
            batch_size=self.batch_size,
            workers=self.workers,
            device=self.device,
            progress=self.progress,
            phase=f"{self.phase}, view {number + 1}" if number else self.phase,
        )
        _write(file, len(dataset), self.dtype, results)


def cached_rows(
    function: Callable[[Tensor], Tensor], rows: NDArray[np.float32], key: dict[str, Any], *, block: int = 1024
) -> NDArray[Any]:
    """`function` of every row of an array, block by block, from the cache or computed now."""

    def compute(file: Path) -> None:
        parts = (slice(first, first + block) for first in range(0, len(rows), block))
        results = ((part, function(torch.from_numpy(np.array(rows[part])))) for part in parts)
        _write(file, len(rows), np.float32, results)

    return stored(key, compute)


def _write(file: Path, rows: int, dtype: type[np.generic], results: Iterable[tuple[slice, Tensor]]) -> None:
    array: Any = None  # a memory-mapped array, as soon as the shape is known
    for part, result in results:
        if array is None:
            array = open_memmap(file, mode="w+", dtype=dtype, shape=(rows, *result.shape[1:]))
        array[part] = result.numpy()
    array.flush()
