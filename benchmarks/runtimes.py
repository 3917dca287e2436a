"""The default network on one CPU thread: PyTorch as `embed` runs it, and onnxruntime as `--runtime onnx` does.

    python -m benchmarks.runtimes [--backbone tf_efficientnet_lite0] [--size 192] [--rounds 3]

Images per second of CPU time, the best of the rounds, at batches of 1, 8 and 32, without decoding.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import normalize

from lookalike.export.runtime import load_onnx_network
from lookalike.models import build_embedder
from lookalike.models.fuse import fuse_for_inference

BATCHES = (1, 8, 32)
IMAGES = 40
"""At least so many images per measurement."""


def measure(backbone: str, *, weights: str, size: int, rounds: int) -> list[dict[str, float]]:
    """One row per batch size: images per second of both, and the largest difference of a coordinate."""
    torch.set_num_threads(1)
    embedder = build_embedder(backbone, weights=weights, size=size, embedding_dim=128).eval()
    fused, onnx = fuse_for_inference(embedder), load_onnx_network(embedder)
    rows = []
    for batch in BATCHES:
        draws = torch.Generator().manual_seed(batch)
        images = torch.randint(0, 256, (batch, 3, size, size), dtype=torch.uint8, generator=draws)
        with torch.inference_mode():
            difference = (normalize(fused(images)) - onnx(images)).abs().max()
            seconds = [_seconds(network, images, rounds) for network in (fused, onnx)]
        rows.append(
            {
                "batch": batch,
                "pytorch": batch / seconds[0],
                "onnxruntime": batch / seconds[1],
                "ratio": seconds[0] / seconds[1],
                "difference": float(difference),
            }
        )
    return rows


def _seconds(network: Callable[[torch.Tensor], Any], images: torch.Tensor, rounds: int) -> float:
    """CPU seconds of one batch, the best round, after one that is not counted."""
    calls = -(-IMAGES // len(images))
    best = float("inf")
    for number in range(rounds + 1):
        began = time.process_time()
        for _ in range(calls):
            network(images)
        if number:
            best = min(best, (time.process_time() - began) / calls)
    return best


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backbone", default="tf_efficientnet_lite0")
    parser.add_argument("--weights", default="auto")
    parser.add_argument("--size", type=int, default=192)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    for row in measure(given.backbone, weights=given.weights, size=given.size, rounds=given.rounds):
        print(
            f"batch {row['batch']:>2}: PyTorch {row['pytorch']:6.1f}, onnxruntime {row['onnxruntime']:6.1f} images per "
            f"second, ratio {row['ratio']:.2f}; largest difference {row['difference']:.1e}"
        )
