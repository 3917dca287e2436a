"""Compares the embeddings of an exported model, made outside this package, with the model's own."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from lookalike.data.dataset import LabeledImages
from lookalike.data.image_io import open_image
from lookalike.data.transforms import EvalTransform
from lookalike.errors import TrainingError
from lookalike.export import outside
from lookalike.export.projector import unit
from lookalike.models.embedder import Embedder

Kind = Literal["timm", "onnx", "pt2"]
LARGEST: dict[Kind, float] = {"timm": 0.02, "onnx": 1e-3, "pt2": 1e-3}
"""Largest difference allowed in a coordinate of a unit vector. timm opens and resizes the images itself."""
NEAREST, EQUAL = 10, 2e-3


@dataclass(frozen=True)
class Agreement:
    """How well an export agrees with its model on real images."""

    images: int
    largest_difference: float
    least_cosine: float
    same_nearest: bool

    def __str__(self) -> str:
        same = "the same" if self.same_nearest else "OTHER"
        return (
            f"{self.images} images, largest difference {self.largest_difference:.1e}, smallest cosine "
            f"{self.least_cosine:.6f}, {same} nearest neighbors"
        )


Check = Callable[[Path], None]
"""Looks at an export under a temporary name, and raises for one that must not be put in place."""


def accept(made: Path) -> None:
    """The check that finds nothing."""


class ExportError(TrainingError):
    """An exported model that does not run outside this package, or gives other embeddings."""


def verify(kind: Kind, model: Path, embedder: Embedder, table: LabeledImages) -> Agreement:
    """Embeds the images of `table` with the exported model in a subprocess, and compares.

    Raises:
        ExportError: the export does not run there, or differs by more than `LARGEST` or in its ten nearest.
    """
    opened = [open_image(table.file(row), box=table.box(row)) for row in range(len(table))]
    transform = EvalTransform(embedder.preprocessing)
    images = torch.stack([transform(image) for image in opened])
    with torch.inference_mode():
        ours = unit(embedder.eval().cpu()(images).numpy())
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder)
        if kind == "timm":
            for number, image in enumerate(opened):
                image.save(target / f"{number:04}.png")
            given = target
        else:
            given = target / "images.npy"
            np.save(given, images.numpy())
        theirs = unit(_outside(kind, model, given, target / "out.npy"))
    if theirs.shape != ours.shape:
        raise ExportError(
            f"the {kind} export gives embeddings of shape {theirs.shape}, the model of {ours.shape}"
        )
    agreement = compare(ours, theirs)
    if agreement.largest_difference > LARGEST[kind] or not agreement.same_nearest:
        raise ExportError(f"the {kind} export does not give the model's embeddings: {agreement}")
    return agreement


def compare(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> Agreement:
    """Agreement of two sets of unit vectors; neighbors count as the same if their similarities are equal in ours."""
    sims = ours @ ours.T
    np.fill_diagonal(sims, -np.inf)
    other = theirs @ theirs.T
    np.fill_diagonal(other, -np.inf)
    count = min(NEAREST, len(ours) - 1)
    mine, found = (np.argsort(-matrix, axis=1, kind="stable")[:, :count] for matrix in (sims, other))
    difference = np.take_along_axis(sims, mine, 1) - np.take_along_axis(sims, found, 1)
    return Agreement(
        images=len(ours),
        largest_difference=float(np.abs(ours - theirs).max()),
        least_cosine=float((ours * theirs).sum(axis=1).min()),
        same_nearest=bool((np.abs(difference) <= EQUAL).all()),
    )


def _outside(kind: Kind, model: Path, images: Path, out: Path) -> NDArray[np.float32]:
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            str(Path(outside.__file__)),
            kind,
            str(model.resolve()),
            str(images),
            str(out),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=images if images.is_dir() else images.parent,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ExportError(f"the {kind} export does not run outside lookalike: {reason}")
    result: NDArray[np.float32] = np.load(out)
    return result
