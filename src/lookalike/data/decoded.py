"""Decoded pictures on disk, for training that looks at every picture in every epoch.

Kept is exactly what `open_image` gives, so training on kept pictures is training on the files, to the last
bit; only the decoding is gone. The price is 3 bytes a pixel: for random crops a large JPEG is decoded at no
more than the resolution that they need.

Two files in the cache: the pixels of all pictures one after the other, memory-mapped and shared by decoding
processes, and where each picture lies.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lookalike.data.dataloader import in_threads
from lookalike.data.dataset import LabeledImages
from lookalike.data.image_io import Picture, open_image
from lookalike.utils.cache_dir import cache_folder
from lookalike.utils.io import write_atomically
from lookalike.utils.progress import Progress

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class DecodedPictures:
    """Picture i of a table is `height x width x 3` bytes of `pixels` from `offset` on.

    Attributes:
        pixels: of all pictures, one after the other.
        places: (N, 3) offset, height, width.
    """

    pixels: Pixels
    places: NDArray[np.int64]

    def open(self, row: int) -> Picture:
        """The picture of a row, as `open_image` gave it."""
        offset, height, width = (int(number) for number in self.places[row])
        return Image.fromarray(self.pixels[offset : offset + 3 * height * width].reshape(height, width, 3))


def decoded_pictures(
    table: LabeledImages,
    *,
    digest: str,
    at_least: tuple[int, int] | None,
    progress: Progress,
) -> DecodedPictures:
    """Every picture of `table` decoded, from the cache or now.

    Args:
        digest: `table.picture_digest()`, for which every file is read: once for all that need it.
        at_least: the resolution that suffices; see `open_image`.

    Raises:
        DataError: a picture that cannot be read; nothing is left in the cache then.
    """
    key = json.dumps([digest, at_least])
    name = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
    pixels, places = (cache_folder() / "decoded" / f"{name}.{suffix}" for suffix in ("rgb", "npy"))
    if not places.exists():  # it is written last
        found: list[tuple[int, int, int]] = []
        write_atomically(pixels, lambda file: found.extend(_write(file, _decoded(table, at_least, progress))))
        write_atomically(places, lambda file: _save(file, np.array(found, dtype=np.int64)))
    return DecodedPictures(np.memmap(pixels, dtype=np.uint8, mode="r").view(np.ndarray), np.load(places))


def _decoded(table: LabeledImages, at_least: tuple[int, int] | None, progress: Progress) -> Iterator[Pixels]:
    with progress.phase("decoding pictures", len(table)) as phase:
        for picture in in_threads(
            lambda row: np.array(open_image(table.file(row), at_least=at_least)), range(len(table))
        ):
            yield picture
            phase.advance()


def _write(file: Path, pictures: Iterator[Pixels]) -> Iterator[tuple[int, int, int]]:
    """Writes the pixels and tells the places."""
    offset = 0
    with file.open("wb") as stream:
        for picture in pictures:
            stream.write(picture.data)
            yield offset, *picture.shape[:2]
            offset += picture.size


def _save(file: Path, places: NDArray[np.int64]) -> None:
    with file.open("wb") as stream:  # np.save would add a suffix to the temporary name
        np.save(stream, places)
