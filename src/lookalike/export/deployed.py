"""An embedder as one self-contained computation: uint8 RGB images in, embeddings of unit length out."""

import copy

from torch import Tensor, nn
from torch.nn import functional

from lookalike.models.checkpoint import fingerprint
from lookalike.models.embedder import Embedder
from lookalike.models.fuse import fuse_for_inference

INPUT, OUTPUT = "images", "embeddings"


class Deployed(nn.Module):
    """uint8 (B, 3, S, S) RGB images, resized and cropped, to float32 (B, D) embeddings of unit length."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__()
        exact = copy.deepcopy(embedder)
        exact.set_precision("float32")  # wherever the file will run
        self.embedder = fuse_for_inference(exact)

    def forward(self, images_BCHW: Tensor) -> Tensor:
        return functional.normalize(self.embedder(images_BCHW), dim=1)


def description(embedder: Embedder) -> dict[str, str]:
    """What a user of the exported file has to know, as texts for its metadata."""
    preprocessing = embedder.preprocessing
    sides = "both sides" if preprocessing.square else "the short side"
    return {
        "made_by": "lookalike",
        "input": f"uint8 RGB, (batch, 3, {preprocessing.size}, {preprocessing.size}), not normalized",
        "resize": f"{sides} to {preprocessing.resize} pixels, {preprocessing.interpolation}, antialiased",
        "crop": f"the central {preprocessing.size} x {preprocessing.size} pixels",
        "output": f"float32, (batch, {embedder.embedding_dim}), unit length; compare by dot product",
        "backbone": embedder.config.backbone,
        "weights_license": embedder.config.weights_license,
        "model_fingerprint": fingerprint(embedder),
    }
