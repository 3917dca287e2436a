"""Embeddings for TensorBoard's projector: a folder that `tensorboard --logdir FOLDER` shows."""

import math
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from lookalike.data.dataset import LabeledImages
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.readers.formulas import escape_formula
from lookalike.data.transforms import EvalTransform
from lookalike.embedding import Embeddings
from lookalike.preprocessing import Preprocessing
from lookalike.utils.console import one_line
from lookalike.utils.io import write_atomically, write_text

LARGEST_SPRITE, LARGEST_THUMBNAIL, LEAST_THUMBNAIL = 8192, 64, 8
"""Sides in pixels; the projector loads one image of all thumbnails, of at most 8192 x 8192 pixels."""


def write_projector(folder: Path, embeddings: Embeddings, table: LabeledImages) -> None:
    """Writes vectors, class names and paths, thumbnails where they fit, and the file that names them.

    Args:
        folder: made if absent; files of these names in it are replaced.
        embeddings: of the images of `table`, in order.
    """
    rows = ["\t".join(f"{value:.6g}" for value in row) for row in unit(embeddings.matrix)]
    names = [embeddings.class_names[label] for label in embeddings.labels]
    known = [f"{_cell(name)}\t{_cell(path)}" for name, path in zip(names, embeddings.paths, strict=True)]
    _write(folder / "vectors.tsv", rows)
    _write(folder / "metadata.tsv", ["class\tpath", *known])
    config = ["embeddings {", '  tensor_path: "vectors.tsv"', '  metadata_path: "metadata.tsv"']
    side = thumbnail_side(len(table))
    if side >= LEAST_THUMBNAIL:
        image = Image.fromarray(sprite(table, side).permute(1, 2, 0).numpy())
        write_atomically(folder / "sprite.png", lambda file: image.save(file, format="PNG"))
        config += [
            f'  sprite {{ image_path: "sprite.png" single_image_dim: {side} single_image_dim: {side} }}'
        ]
    _write(folder / "projector_config.pbtxt", [*config, "}"])


def thumbnail_side(count: int) -> int:
    """Side of each of `count` square thumbnails in a square sprite."""
    return min(LARGEST_THUMBNAIL, LARGEST_SPRITE // math.ceil(math.sqrt(max(1, count))))


def sprite(table: LabeledImages, side: int) -> Tensor:
    """All images of the table, row by row, in one square image: uint8 (3, columns * side, columns * side)."""
    columns = math.ceil(math.sqrt(len(table)))
    images = ImageDataset(table, EvalTransform(Preprocessing(size=side, resize=side, square=True)))
    canvas = torch.zeros(3, columns * side, columns * side, dtype=torch.uint8)
    for number in range(len(table)):
        top, left = number // columns * side, number % columns * side
        canvas[:, top : top + side, left : left + side] = images[number][0]
    return canvas


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows scaled to unit length."""
    scaled: NDArray[np.float32] = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return scaled


def _cell(text: str) -> str:
    """Text that neither ends a cell, steers a terminal nor is a formula to a spreadsheet."""
    return escape_formula(one_line(" ".join(text.split())))


def _write(file: Path, lines: list[str]) -> None:
    write_text(file, "\n".join(lines) + "\n")
