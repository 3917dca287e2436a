"""Results of a frozen part of the network, computed once and kept on disk.

The key is a hash of everything that decides the numbers: the bytes of the pictures, the weights that run,
the preprocessing, the views and the number type. An entry is a plain .npy file, written under a temporary
name and opened memory-mapped, so it may be larger than memory and a killed run leaves nothing half done.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib.format import open_memmap
from numpy.typing import NDArray
from torch import Tensor, nn

from lookalike.data.images import ImageDataset
from lookalike.data.readers.archives import cache_folder
from lookalike.data.table import LabeledImages
from lookalike.data.transforms import TrainTransform, test_transform
from lookalike.embedding import map_pictures
from lookalike.files import write_atomically
from lookalike.progress import Progress


def picture_digest(table: LabeledImages) -> str:
    """Hash of the bytes of all pictures, in order; names and labels do not matter."""
    whole = hashlib.blake2b(digest_size=16)
    for row in range(len(table)):
        whole.update(hashlib.blake2b(table.file(row).read_bytes(), digest_size=16).digest())
    return whole.hexdigest()


def weight_digest(modules: list[nn.Module]) -> str:
    """Hash of all parameters and buffers of `modules`, in order."""
    whole = hashlib.blake2b(digest_size=16)
    for module in modules:
        for tensor in module.state_dict().values():
            whole.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()


def cached_outputs(
    function: Callable[[Tensor], Tensor],
    table: LabeledImages,
    crops: TrainTransform,
    *,
    key: dict[str, Any],
    views: int,
    seed: int,
    dtype: type[np.floating[Any]],
    batch_size: int,
    workers: int | None,
    device: torch.device | str,
    progress: Progress,
    phase: str,
) -> NDArray[np.floating[Any]]:
    """`function` of every picture, shape (len(table), views, ...), from the cache or computed now.

    View 0 is the picture as the test transform shows it, view 1 its mirror image (unless `crops` never
    mirrors), and each further view a random crop of `crops`.
    """
    mirrored = views > 1 and crops.flip > 0
    whole = 2 if mirrored else 1
    facts = {
        "pictures": picture_digest(table),
        "preprocessing": crops.preprocessing.to_dict(),
        "views": views,
        "crops": [crops.scale, crops.ratio, crops.flip, seed] if views > whole else None,
        "dtype": np.dtype(dtype).name,
        **key,
    }
    name = hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()
    file = cache_folder() / "activations" / f"{name}.npy"
    if not file.exists():
        options: dict[str, Any] = {
            "batch_size": batch_size,
            "workers": workers,
            "device": device,
            "progress": progress,
        }

        def compute(temporary: Path) -> None:
            plain = ImageDataset(table, test_transform(crops.preprocessing))
            cropped = ImageDataset(table, crops, seed=seed)
            _compute(temporary, function, plain, cropped, views, whole, dtype, phase, options)

        write_atomically(file, compute)
    array: NDArray[np.floating[Any]] = np.load(file, mmap_mode="r")
    return array


def _compute(
    file: Path,
    function: Callable[[Tensor], Tensor],
    plain: ImageDataset,
    cropped: ImageDataset,
    views: int,
    whole: int,
    dtype: type[np.floating[Any]],
    phase: str,
    options: dict[str, Any],
) -> None:
    """Fills the views of whole pictures (plain, mirrored) in one pass, and each crop in another."""

    def plain_and_mirrored(images: Tensor) -> Tensor:
        return torch.stack([function(image) for image in (images, images.flip(-1))[:whole]], dim=1)

    array: Any = None  # a memory-mapped array, as soon as the shape is known
    for rows, result in map_pictures(plain_and_mirrored, plain, phase=phase, **options):
        if array is None:
            array = open_memmap(file, mode="w+", dtype=dtype, shape=(len(plain), views, *result.shape[2:]))
        array[rows, : result.shape[1]] = result.numpy()
    for view in range(whole, views):
        cropped.set_epoch(view)
        for rows, result in map_pictures(
            function, cropped, phase=f"{phase}, crop {view - whole + 1}", **options
        ):
            array[rows, view] = result.numpy()
    array.flush()
