"""A trained model as one file that runs without this package: ONNX, and PyTorch's own `.pt2`.

Both are made by `torch.export`, take any batch size, and hold normalization and L2 normalization; resizing and cropping
are described in the file's metadata.
"""

import io
import json
import logging
import warnings
from pathlib import Path
from typing import Any

import torch

from lookalike.errors import first_line
from lookalike.export.deployed import INPUT, OUTPUT, Deployed, description
from lookalike.export.verify import Check, ExportError, accept
from lookalike.models.embedder import Embedder
from lookalike.models.same_padding import pad_inputs
from lookalike.utils.io import write_atomically
from lookalike.utils.validation import optional_import


def export_onnx(embedder: Embedder, file: Path, *, check: Check = accept) -> None:
    """Writes an ONNX file with `description` in its metadata.

    Args:
        file: in place once `check`, which gets a temporary file, has returned.

    Raises:
        MissingExtraError: onnx or onnxscript is not installed.
        ExportError: torch.export cannot express the model.
    """
    optional_import("onnx", "onnx")
    optional_import("onnxscript", "onnx")
    model = _deployed(embedder)
    pad_inputs(model)  # an ONNX convolution pads unevenly itself, and the exporter loses padded kernels
    exported = export_program(model)  # here, since torch.onnx would go on with a fixed batch size
    level = logging.getLogger("torch.onnx").level
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the exporter about its own use of torch
            program: Any = torch.onnx.export(
                exported, dynamo=True, input_names=[INPUT], output_names=[OUTPUT], verbose=False
            )
    finally:
        logging.getLogger("torch.onnx").setLevel(level)
    program.model.metadata_props.update(description(embedder))

    def write(temporary: Path) -> None:
        program.save(temporary, external_data=False)
        check(temporary)

    write_atomically(file, write)


def export_pt2(embedder: Embedder, file: Path, *, check: Check = accept) -> None:
    """Writes a program for `torch.export.load` with `description` as its extra file `description.json`.

    Args:
        file: in place once `check`, which gets a temporary file, has returned.

    Raises:
        ExportError: torch.export cannot express the model.
    """
    program = export_program(_deployed(embedder))
    extra = {"description.json": json.dumps(description(embedder), ensure_ascii=False, allow_nan=False)}
    whole = io.BytesIO()  # torch ends the process where it writes to a full disk itself
    torch.export.save(program, whole, extra_files=extra)

    def write(temporary: Path) -> None:
        temporary.write_bytes(whole.getbuffer())
        check(temporary)

    write_atomically(file, write)


def export_program(model: Deployed) -> torch.export.ExportedProgram:
    """The model as a program for any batch size.

    Raises:
        ExportError: torch.export cannot express the model.
    """
    size = model.embedder.preprocessing.size
    images = torch.zeros(2, 3, size, size, dtype=torch.uint8)
    batch = torch.export.Dim("batch", min=1)
    try:
        return torch.export.export(model, (images,), dynamic_shapes=({0: batch},), strict=False)
    except Exception as error:  # whatever torch's tracer or the backbone's code raises
        backbone = model.embedder.config.backbone
        raise ExportError(
            f"torch.export cannot express backbone '{backbone}' for any batch size: {first_line(error)}"
        ) from error


def _deployed(embedder: Embedder) -> Deployed:
    return Deployed(embedder.cpu()).eval().to(memory_format=torch.contiguous_format)
