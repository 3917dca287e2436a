"""Embeds images with an exported model, as a program that cannot import `lookalike`: how others will use the file.

    python outside.py KIND MODEL IMAGES.npy OUT.npy      KIND: onnx, pt2 or timm

`verify` runs it in a subprocess. For onnx and pt2 IMAGES.npy is uint8 (N, 3, S, S); for timm it is a folder of PNG
files at their original size, which timm's own transform resizes and crops.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 7


def embed_onnx(model: str, images: Any) -> Any:
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"images": batch})[0] for batch in batches(images)])


def embed_pt2(model: str, images: Any) -> Any:
    import torch

    program = torch.export.load(model).module()
    with torch.no_grad():
        return np.concatenate([program(torch.from_numpy(batch)).numpy() for batch in batches(images)])


def embed_timm(model: str, folder: str) -> Any:
    import timm
    import torch
    from PIL import Image

    network = timm.create_model(f"local-dir:{model}", pretrained=True).eval()
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(network), is_training=False)
    files = sorted(Path(folder).glob("*.png"))
    with torch.inference_mode():
        rows = [network(transform(Image.open(file).convert("RGB"))[None]).numpy() for file in files]
    return np.concatenate(rows)


def batches(images: Any) -> list[Any]:
    return [images[start : start + BATCH] for start in range(0, len(images), BATCH)]


def main(kind: str, model: str, images: str, out: str) -> None:
    if kind == "timm":
        result = embed_timm(model, images)
    else:
        result = {"onnx": embed_onnx, "pt2": embed_pt2}[kind](model, np.load(images))
    np.save(out, result)


if __name__ == "__main__":
    sys.modules["lookalike"] = None  # type: ignore[assignment]  # any import of it fails
    try:
        main(*sys.argv[1:])
    except Exception as error:
        sys.exit(" ".join(f"{type(error).__name__}: {error}".split()))  # one line, which `verify` quotes
