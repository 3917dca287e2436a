"""From a picture to an embedding on a CPU: what each way of running the network gives.

    python -m benchmarks.pictures [--backbone NAME] [--size 112] [--threads N]

Pictures per CPU second of the process, so that other work on the machine counts little. The first stages are
those that mode partial caches; the tail is what it trains, forward, backward and optimizer step. The second
block is a process in which the C library reuses freed memory, as `lookalike` on the command line does.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from lookalike.__main__ import _keep_freed_memory
from lookalike.losses import ProxyAnchor
from lookalike.models.batch_norm import freeze_batch_norm
from lookalike.models.embedder import Embedder, build_embedder
from lookalike.models.inference import for_inference

BATCH, CLASSES = 90, 98


def rate(step: Callable[[], object], repeats: int = 7) -> float:
    """Pictures per CPU second, median over repeats after a warm-up."""
    step()
    times = []
    for _ in range(repeats):
        began = time.process_time()
        step()
        times.append(time.process_time() - began)
    return BATCH / statistics.median(times)


def training_step(
    embedder: Embedder, head: nn.Module, activations: Tensor, labels: Tensor
) -> Callable[[], None]:
    """Forward, backward and optimizer step of the tail."""
    loss = ProxyAnchor(CLASSES, embedder.embedding_dim)
    optimizer = torch.optim.AdamW([*head.parameters(), *embedder.projection.parameters(), *loss.parameters()])

    def step() -> None:
        loss(embedder.embed_maps(head(activations)), labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def measure(backbone: str, size: int, title: str) -> None:
    """Prints one block of the table."""
    embedder = build_embedder(backbone, size=size).eval()
    cut = embedder.default_cut()
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 255, (BATCH, 3, size, size), dtype=torch.uint8, generator=generator)
    labels = torch.randint(0, CLASSES, (BATCH,), generator=generator)
    plain, fast = embedder.stem_until(cut), for_inference(embedder.stem_until(cut))
    print(f"{title}: {backbone} at {size} px, {cut} stages cached")
    with torch.inference_mode():
        activations = fast(images)
        print(f"  first stages as they are               {rate(lambda: plain(images)):7.0f}")
        print(f"  folded, channels last                  {rate(lambda: fast(images)):7.0f}")
        with torch.autocast("cpu", torch.bfloat16):
            print(f"  folded, channels last, bfloat16        {rate(lambda: fast(images)):7.0f}")
    activations = activations.clone()
    for layout, name in (
        (torch.contiguous_format, "as they are   "),
        (torch.channels_last, "channels last "),
    ):
        embedder.to(memory_format=layout)
        embedder.train()
        freeze_batch_norm(embedder, affine_trained=True)
        step = training_step(embedder, embedder.head_from(cut), activations, labels)
        print(f"  training the tail, {name}      {rate(step):7.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backbone", default="tf_efficientnet_lite0")
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--worker", choices=["plain", "reusing"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.worker is None:
        for worker in ("plain", "reusing"):
            subprocess.run(
                [sys.executable, "-m", "benchmarks.pictures", *sys.argv[1:], "--worker", worker], check=True
            )
    elif options.worker == "plain":
        measure(options.backbone, options.size, "as Python comes")
    else:
        _keep_freed_memory()
        measure(options.backbone, options.size, "freed memory reused")


if __name__ == "__main__":
    main()
