"""Defaults of settings that are left open, by mode, device, backbone and number of images."""

import math
from typing import Any, Literal

MODE_DEFAULTS: dict[str, dict[str, Any]] = {
    "frozen": {"epochs": 30, "warmup_epochs": 0, "lr": 1e-4, "head_lr": 3e-3, "proxy_lr": 3e-2},
    "partial": {"epochs": 4, "warmup_epochs": 0, "lr": 1e-3, "head_lr": 1e-3, "proxy_lr": 3e-2},
    "finetune": {"epochs": 20, "warmup_epochs": 1, "lr": 1e-4, "head_lr": 1e-4, "proxy_lr": 1e-2},
}
"""What a None in `train` becomes, by mode; chosen on validation classes."""
FEWEST_STEPS, MOST_EPOCHS = 150, 12
"""Mode partial trains for more epochs where the images are so few that its own make fewer steps, up to this many."""


def default_mode(*, gpu: bool) -> Literal["partial", "finetune"]:
    """The mode of a run that leaves `train.mode` open."""
    return "finetune" if gpu else "partial"


def default_epochs(mode: str, *, images: int, batch: int) -> int:
    """Epochs of a run that leaves `train.epochs` open, for so many training images and images per batch."""
    epochs: int = MODE_DEFAULTS[mode]["epochs"]
    if mode != "partial":
        return epochs
    steps = math.ceil(images / batch)
    return max(epochs, min(MOST_EPOCHS, math.ceil(FEWEST_STEPS / steps)))


def input_size(short_side: int, backbone_size: int, patch: int = 1, *, gpu: bool) -> int:
    """The side at which images of a median short side of `short_side` are shown to the network.

    A network does best near the size that it was trained at, and small images do better enlarged than shown
    small; without a GPU a seventh less keeps most of that for three quarters of the time. Nothing is gained
    by enlarging more than twice. The size is rounded to whole patches of a transformer.
    """
    most = backbone_size if gpu else round(backbone_size * 6 / 7 / 32) * 32
    size = min(most, max(32, round(2 * short_side / 32) * 32))
    return max(patch, round(size / patch) * patch)


def embedding_dim(images: int) -> int:
    """At most 512 and a power of 2; a closed-form start has no more directions than training images."""
    return min(512, 1 << max(2, images // 2).bit_length() - 1)
