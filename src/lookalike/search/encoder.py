"""From images to vectors with one loaded model, for files that are hashed as they are read and for queries.

The preprocessing and the fused network are those of `embedding.embed`; a test holds their vectors equal.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lookalike.data.image_io import PILImage
from lookalike.data.transforms import EvalTransform
from lookalike.errors import FileError
from lookalike.export.runtime import load_onnx_network
from lookalike.models.checkpoint import fingerprint, load_model
from lookalike.models.embedder import Embedder
from lookalike.models.fuse import fuse_for_inference
from lookalike.search.engines import Floats
from lookalike.utils.device import pick_device

BATCH, ONNX = 64, "onnx"
MODEL = "model"
"""Folder of an index with a copy of the model that made its vectors."""


@dataclass(frozen=True)
class ImageEncoder:
    """A model in evaluation mode, ready to embed; `of_index` or `of` makes one.

    Attributes:
        network: the fused network, on `device`, or the same in onnxruntime.
        transform: from an image to the network's uint8 tensor.
        fingerprint, dim: of the model.
    """

    network: Callable[[Tensor], Tensor]
    transform: EvalTransform
    fingerprint: str
    dim: int
    device: torch.device

    @classmethod
    def of_index(cls, folder: str | Path, device: str = "auto") -> "ImageEncoder":
        """The copy of its model that an index holds.

        Raises:
            FileError: it is missing or damaged.
        """
        try:
            embedder, _ = load_model(Path(folder) / MODEL)
        except FileError as error:
            absent = f"index '{folder}' holds vectors and no model, so images cannot be embedded for it"
            what = str(error) if (Path(folder) / MODEL).exists() else absent
            raise FileError(
                f"{what}; to put the copy of the model back into the index: lookalike index RUN IMAGES --out {folder}"
            ) from error
        return cls.of(embedder, device)

    @classmethod
    def of(cls, embedder: Embedder, device: str = "auto") -> "ImageEncoder":
        """An encoder of a model in memory; on the device "onnx" onnxruntime runs it, on the CPU."""
        if device == ONNX:
            network: Callable[[Tensor], Tensor] = load_onnx_network(embedder)
            target = torch.device("cpu")
        else:
            target = pick_device(device)
            network = fuse_for_inference(embedder, target)
        return cls(
            network,
            EvalTransform(embedder.preprocessing),
            fingerprint(embedder),
            embedder.embedding_dim,
            target,
        )

    def prepare(self, image: PILImage) -> Tensor:
        """The network's input, uint8 (3, S, S)."""
        return self.transform(image)

    def encode(self, tensors: list[Tensor]) -> Floats:
        """Embeddings of prepared images, (N, dim), in batches."""
        parts = []
        for start in range(0, len(tensors), BATCH):
            images = torch.stack(tensors[start : start + BATCH]).to(self.device, non_blocking=True)
            with torch.inference_mode():
                parts.append(self.network(images).float().cpu().numpy())
        return np.concatenate(parts) if parts else np.empty((0, self.dim), np.float32)
