"""Images of nothing, drawn in milliseconds, for tests that need a training to happen."""

from pathlib import Path

import numpy as np
from PIL import Image

from lookalike.data.dataset import CoarseLevel, LabeledImages

CLASSES, EACH, SIDE = 16, 4, 40

TOY_SETTINGS = (
    "model.backbone=test_resnet",
    "model.weights=none",
    "model.embedding_dim=8",
    "data.image_size=32",
    "data.resize=32",
    "data.workers=0",
    "train.mode=frozen",
    "train.epochs=2",
    "batch.size=16",
)


def colored_squares(folder: Path, *, named_split: bool = False) -> LabeledImages:
    """16 classes of 4 noisy squares of about one color a class; the last 8 named as test if asked."""
    folder.mkdir(parents=True, exist_ok=True)
    draws = np.random.default_rng(0)
    colors = draws.integers(80, 175, size=(CLASSES, 3))
    paths = []
    for label in range(CLASSES):
        for number in range(EACH):
            color = colors[label] + draws.normal(0, 15, size=3)
            pixels = np.clip(color + draws.normal(0, 20, size=(SIDE, SIDE, 3)), 0, 255).astype(np.uint8)
            paths.append(f"{label:02d}-{number}.png")
            Image.fromarray(pixels).save(folder / paths[-1])
    labels = np.repeat(np.arange(CLASSES), EACH)
    parents = np.arange(CLASSES) // 4
    return LabeledImages(
        folder,
        tuple(paths),
        labels,
        tuple(f"color {label:02d}" for label in range(CLASSES)),
        coarse=(CoarseLevel("hue", parents, tuple(f"hue {group}" for group in range(4))),),
        split=np.where(labels < CLASSES // 2, "train", "test") if named_split else None,
        name="squares",
    )


def photo_folders(folder: Path, *, classes: int = 12, each: int = 6) -> Path:
    """`folder`/<class>/<number>.png: small mosaics, one pattern a class with noise."""
    draws = np.random.default_rng(0)
    for label in range(classes):
        pattern = draws.integers(0, 255, size=(6, 6, 3))
        (folder / f"{label}").mkdir(parents=True)
        for number in range(each):
            tiles = np.clip(pattern + draws.normal(0, 40, size=pattern.shape), 0, 255).astype(np.uint8)
            image = Image.fromarray(tiles).resize((48, 48), Image.Resampling.NEAREST)
            image.save(folder / f"{label}" / f"{number}.png")
    return folder
