"""Embeds images: the one function for it, which evaluation, index, search and export call.

`map_images` runs a function over the images of a table, batch by batch, on the device; `embed` is
`map_images` of a whole embedder. Results stream: memory does not grow with the number of images when they
are written to a file.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from lookalike.data.dataloader import embedding_workers, image_batches
from lookalike.data.dataset import LabeledImages
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.transforms import EvalTransform
from lookalike.errors import ArgumentError, NotFiniteError
from lookalike.models.embedder import Embedder
from lookalike.models.fuse import fuse_for_inference
from lookalike.utils.io import escape_surrogates, os_errors, reserve, write_atomically
from lookalike.utils.parquet import write_parquet
from lookalike.utils.progress import Progress
from lookalike.utils.validation import check_at_least, check_choice

FORMATS = (".npy", ".npz", ".parquet")


@dataclass(frozen=True)
class Embeddings:
    """Vectors and what they are of; row i of each belongs to image i."""

    matrix: NDArray[np.float32]
    labels: NDArray[np.int64]
    paths: tuple[str, ...]
    class_names: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Embeddings: {' x '.join(map(str, self.matrix.shape))}, {len(self.class_names)} classes>"

    def save(self, file: Path) -> None:
        """Writes an .npz archive with `embeddings`, `labels`, `paths` and `class_names` (plain strings)."""
        with file.open("wb") as stream:
            np.savez(
                stream,
                embeddings=self.matrix,
                labels=self.labels,
                paths=np.array(self.paths, dtype=np.str_),
                class_names=np.array(self.class_names, dtype=np.str_),
            )

    def to_frame(self) -> polars.DataFrame:
        """A table with `path`, `label`, `class_name` and `embedding`, one row per image."""
        names = [escape_surrogates(self.class_names[label]) for label in self.labels]
        columns = {
            "path": list(map(escape_surrogates, self.paths)),
            "label": self.labels,
            "class_name": names,
        }
        return polars.DataFrame({**columns, "embedding": self.matrix})


def map_images(
    function: Callable[[Tensor], Tensor],
    dataset: ImageDataset,
    *,
    batch_size: int = 64,
    workers: int | None = None,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    phase: str = "embedding",
) -> Iterator[tuple[slice, Tensor]]:
    """`function` of every batch of images, without gradients, as (rows, result on the CPU)."""
    check_at_least("batch_size", batch_size, 1)
    check_at_least("workers", workers or 0, 0)
    done = 0
    with (progress or Progress()).phase(phase, len(dataset)) as running:
        workers = embedding_workers(workers, device)
        for images in image_batches(dataset, batch_size=batch_size, workers=workers, device=device):
            with torch.inference_mode():
                result = function(images.to(device, non_blocking=True)).cpu()
            yield slice(done, done + len(images)), result
            done += len(images)
            running.advance(len(images))


def embed(
    embedder: Embedder,
    table: LabeledImages,
    *,
    batch_size: int = 64,
    workers: int | None = None,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
) -> Embeddings:
    """Embeds every image of `table`, in order, in evaluation mode.

    Args:
        embedder: in any mode; it stays as it is.
        table: of images on disk, as `read` makes it; `search.encoder.ImageEncoder` embeds images in memory.
        batch_size: images per run of the network.
        workers: processes that read images; None: as many as pay off.
        device: where a copy of the network runs; None: where the network is.
        progress: reports it.

    Returns:
        Raw embeddings in float32; compare them by cosine similarity.

    Raises:
        ArgumentError: anything but a table.
        NotFiniteError: the model gives NaN or infinity for an image.
    """
    if not isinstance(table, LabeledImages):
        raise ArgumentError(
            f"embed takes a table of images, not {type(table).__name__}; make one with "
            "lookalike.read(FOLDER, labeled=False); lookalike.search.encoder.ImageEncoder embeds images in memory"
        )
    if not isinstance(embedder, Embedder):
        raise ArgumentError(
            f"embed takes an Embedder, not {type(embedder).__name__}: lookalike.load_model(RUN)[0], or "
            "lookalike.build_embedder(NAME); vectors of another network go to lookalike.evaluate as they are"
        )
    matrix = np.empty((len(table), embedder.embedding_dim), dtype=np.float32)
    for rows, result in _embedded(
        embedder, table, batch_size=batch_size, workers=workers, device=device, progress=progress
    ):
        matrix[rows] = result
    return Embeddings(matrix, table.labels, table.paths, table.class_names)


def _embedded(
    embedder: Embedder,
    table: LabeledImages,
    *,
    batch_size: int = 64,
    workers: int | None = None,
    device: torch.device | str | None,
    progress: Progress | None,
) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """Embeddings batch by batch.

    Raises:
        NotFiniteError: the model gives NaN or infinity for an image.
    """
    device = next(embedder.parameters()).device if device is None else device
    for rows, result in map_images(
        fuse_for_inference(embedder, device),
        ImageDataset(table, EvalTransform(embedder.preprocessing)),
        batch_size=batch_size,
        workers=workers,
        device=device,
        progress=progress,
    ):
        matrix = result.float().numpy()
        bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
        if len(bad):
            raise NotFiniteError(
                f"{len(bad)} of {len(matrix)} embeddings are not finite, first that of '{table.paths[rows][bad[0]]}'; "
                "the model's weights are damaged or too large; train it with lower learning rates, or use another",
                bad.tolist(),
            )
        yield rows, matrix


def embed_to_file(
    embedder: Embedder,
    table: LabeledImages,
    file: Path,
    *,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
) -> Embeddings:
    """Embeds `table` into `file` and returns what it holds; the format is the suffix's.

    `.npy` holds the matrix alone and is written as it is computed, whatever its size, and comes back memory-mapped;
    `.npz` and `.parquet` add labels, class names and paths. The space on disk is taken before the first image is read.

    Raises:
        ArgumentError: another suffix.
        FileError: the disk is full, or the file cannot be written.
    """
    check_choice("format", file.suffix, FORMATS)
    shape = (len(table), embedder.embedding_dim)
    options: dict[str, Any] = {"device": device, "progress": progress}

    def write_array(stream: IO[bytes]) -> None:
        npy.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": shape})
        reserve(stream, stream.tell() + 4 * math.prod(shape))
        for _, rows in _embedded(embedder, table, **options):
            stream.write(rows.astype("<f4", copy=False).tobytes())

    found: Embeddings | None = None

    def write(temporary: Path) -> None:
        nonlocal found
        with temporary.open("wb") as stream:
            if file.suffix == ".npy":
                write_array(stream)
                return
            reserve(stream, 4 * math.prod(shape))
        found = embed(embedder, table, **options)
        if file.suffix == ".npz":
            found.save(temporary)
        else:
            write_parquet(found.to_frame(), temporary)

    with os_errors("write", file, "free space or name a file elsewhere"):
        write_atomically(file, write)
    if found is None:
        found = Embeddings(np.load(file, mmap_mode="r"), table.labels, table.paths, table.class_names)
    return found
