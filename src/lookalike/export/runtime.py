"""A model run by onnxruntime on the CPU, where it is faster than PyTorch; for index, search and serve."""

import copy
from importlib import metadata
from typing import Any

import torch
from torch import Tensor

from lookalike.export.deployed import INPUT
from lookalike.export.programs import export_onnx
from lookalike.models.checkpoint import fingerprint
from lookalike.models.embedder import Embedder
from lookalike.utils.cache_dir import cache_folder
from lookalike.utils.validation import optional_import


class OnnxNetwork:
    """uint8 (B, 3, S, S) images to float32 (B, D) embeddings of unit length."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __call__(self, images_BCHW: Tensor) -> Tensor:
        return torch.from_numpy(self._session.run(None, {INPUT: images_BCHW.numpy()})[0])


def load_onnx_network(embedder: Embedder) -> OnnxNetwork:
    """The model exported to ONNX, once per model and version, in the cache.

    Raises:
        MissingExtraError: onnxruntime, or for the first use onnx or onnxscript, is not installed.
    """
    runtime: Any = optional_import("onnxruntime", "onnx")
    versions = "-".join(metadata.version(package) for package in ("lookalike", "torch"))
    file = cache_folder() / "onnx" / f"{fingerprint(embedder)[:32]}-{versions}.onnx"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        export_onnx(copy.deepcopy(embedder), file)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return OnnxNetwork(runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"]))
