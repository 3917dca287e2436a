"""What a backbone expects of an image: one immutable value that is saved with the weights.

Data, models and the saved run read the same `Preprocessing`, so training, evaluation, indexing and search
cannot disagree about sizes, channel order or means. Images stay uint8 RGB until they are on the device that
uses them; `Normalize` is the first module of every network.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lookalike.errors import ArgumentError

INTERPOLATIONS = ("bilinear", "bicubic", "lanczos")


@dataclass(frozen=True)
class Preprocessing:
    """Sizes in pixels; mean and std per RGB channel, on the 0-1 scale.

    In evaluation an image is resized so that its short side is `resize` (`square=True`: both sides, whatever
    the proportions), then the central `size` x `size` pixels are cropped.
    """

    size: int = 224
    resize: int = 256
    square: bool = False
    interpolation: Literal["bilinear", "bicubic", "lanczos"] = "bicubic"
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    channels: Literal["rgb", "bgr"] = "rgb"

    def __post_init__(self) -> None:
        if self.size < 1 or self.resize < self.size:
            raise ArgumentError(
                f"an image resized to {self.resize} has no central {self.size} pixels; "
                "resize must be at least size"
            )

    def normalize(self, images_BCHW: Tensor) -> Tensor:
        """uint8 RGB images (B, 3, H, W) as the backbone's float32 input.

        (x / 255 - mean) / std per channel; the channels are reversed for BGR backbones.
        """
        mean = torch.tensor(self.mean, device=images_BCHW.device).mul(255).view(1, 3, 1, 1)
        std = torch.tensor(self.std, device=images_BCHW.device).mul(255).view(1, 3, 1, 1)
        normal = (images_BCHW.to(torch.float32) - mean) / std
        return normal.flip(1) if self.channels == "bgr" else normal

    def at_size(self, size: int | None, resize: int | None) -> "Preprocessing":
        """The same preprocessing at another input size; `resize` None: the size itself, so nothing is cropped."""
        if size is None and resize is None:
            return self
        size = self.size if size is None else size
        return replace(self, size=size, resize=size if resize is None else resize)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Preprocessing":
        """The inverse of `to_dict`."""
        tuples: dict[str, Any] = {key: tuple(values[key]) for key in ("mean", "std") if key in values}
        return cls(**{**values, **tuples})


class Normalize(nn.Module):
    """uint8 RGB images to the backbone's float input; the first module of every network."""

    def __init__(self, preprocessing: Preprocessing) -> None:
        super().__init__()
        self.preprocessing = preprocessing

    def forward(self, images_BCHW: Tensor) -> Tensor:
        if images_BCHW.dtype != torch.uint8 or images_BCHW.ndim != 4 or images_BCHW.shape[1] != 3:
            raise ArgumentError(
                f"images are {images_BCHW.dtype} of shape {tuple(images_BCHW.shape)}; expected torch.uint8 "
                "(B, 3, H, W) in RGB, 0-255, not normalized"
            )
        return self.preprocessing.normalize(images_BCHW)
