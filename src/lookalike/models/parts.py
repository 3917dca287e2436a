"""What stands around a backbone: the settings of an embedder, its input, and the shape of its output."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from lookalike.errors import ArgumentError
from lookalike.preprocessing import Preprocessing


@dataclass(frozen=True)
class EmbedderConfig:
    """Everything but the weights: enough to build the same network again.

    `embedding_dim` None means no projection: the pooled vector is the embedding. `views` is 1 for the image
    alone and 2 for the image and its mirror image (see `models.views`).
    """

    backbone: str
    pooling: str
    k: int
    norm: str
    embedding_dim: int | None
    bias: bool
    preprocessing: Preprocessing
    weights_origin: str
    weights_license: str
    views: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "EmbedderConfig":
        """The inverse of `to_dict`."""
        return cls(**{**values, "preprocessing": Preprocessing.from_dict(values["preprocessing"])})


class Normalize(nn.Module):
    """uint8 RGB images to the backbone's float input."""

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


class ToMaps(nn.Module):
    """Whatever a backbone's last stage gives, as maps (B, F, H, W): tokens and channels-last included."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self._prefix = int(getattr(backbone, "num_prefix_tokens", 0))
        self._channels_last = str(getattr(backbone, "output_fmt", "NCHW")).endswith("NHWC")

    def forward(self, features: Tensor) -> Tensor:
        if features.ndim == 3:
            patches = features[:, self._prefix :]
            side = round(patches.shape[1] ** 0.5)
            return patches.transpose(1, 2).reshape(len(patches), patches.shape[2], side, -1)
        return features.permute(0, 3, 1, 2) if self._channels_last else features


def sized(preprocessing: Preprocessing, size: int | None, resize: int | None) -> Preprocessing:
    """The same preprocessing at another input size (see `build_embedder`)."""
    if size is None and resize is None:
        return preprocessing
    size = preprocessing.size if size is None else size
    return replace(preprocessing, size=size, resize=size if resize is None else resize)
