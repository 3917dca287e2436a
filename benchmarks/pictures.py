"""From a picture to an embedding on a CPU: what each way of running the network gives.

    python -m benchmarks.pictures [--backbone NAME] [--size 112] [--threads N]

The first stages are those that mode partial caches, in pictures per CPU second of the process, so that other work
on the machine counts little. The tail is what it trains, forward, backward and optimizer step, in pictures per second
of the wall clock, contenders taking turns: its 5 x 5 depthwise convolutions of small maps as matrix products
(`lookalike.models.depthwise`) or as convolutions, in both layouts. The second block is a process in which the C
library reuses freed memory, as `lookalike` on the command line does.
"""

import argparse
import copy
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
from lookalike.models import depthwise
from lookalike.models.batch_norm import freeze_batch_norm
from lookalike.models.embedder import Embedder, build_embedder
from lookalike.models.fuse import for_inference

BATCH, CLASSES = 90, 98
LAYOUTS = {"contiguous": torch.contiguous_format, "channels last": torch.channels_last}


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
    print_training_rates(embedder, cut, activations, labels)


def print_training_rates(
    embedder: Embedder, cut: int, activations: Tensor, labels: Tensor, rounds: int = 7
) -> None:
    """Median rates of the tail's step; every contender in every round, after one round that is not counted."""
    contenders = {
        f"{layout_name}, {how}": (layout, how)
        for layout_name, layout in LAYOUTS.items()
        for how in ("products", "convolutions")
    }
    as_chosen = depthwise.most_places
    steps = {}
    for name, (layout, _) in contenders.items():
        network = copy.deepcopy(embedder).to(memory_format=layout).train()
        freeze_batch_norm(network, affine_trained=True)
        given = activations.contiguous(memory_format=layout)
        steps[name] = training_step(network, network.head_from(cut), given, labels)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds + 1):
        for name, (_, how) in contenders.items():
            most = 64 if how == "products" else 0
            depthwise.most_places = lambda *, channels_last, most=most: most
            began = time.perf_counter()
            steps[name]()
            seconds[name].append(time.perf_counter() - began)
    depthwise.most_places = as_chosen
    for name in contenders:
        print(f"  training the tail, {name:28} {BATCH / statistics.median(seconds[name][1:]):7.0f}")


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
