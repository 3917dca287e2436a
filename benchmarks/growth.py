"""How time and memory of Proxy-Anchor grow with classes, batch and dimension: ours, and the peer's.

    python -m benchmarks.growth [--threads N] [--out docs/benchmarks] [--short]

The peer is pytorch-metric-learning. Each point is a process of its own: the median CPU time of a step,
forward and backward, and the growth of its peak memory during the first step, less the two gradients that
any form hands over. While one of the three varies, the others stay at C = 10,000, B = 64, D = 128. Writes
growth.svg and growth.json.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from benchmarks import peak_bytes, reset_peak

STILL = {"C": 10_000, "B": 64, "D": 128}
RANGES = {
    "C": (100, 1_000, 10_000, 100_000, 1_000_000),
    "B": (16, 64, 256, 1024),
    "D": (32, 128, 512, 2048),
}
SHORT = {"C": (100, 10_000), "B": (16, 64), "D": (32, 128)}
LABELS = {"C": "classes", "B": "batch", "D": "dimension"}
FORMS = {"ours": "tab:blue", "pytorch-metric-learning": "tab:orange"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        form, *sizes = options.worker
        print(json.dumps(measure(form, *map(int, sizes))))
        return
    points = []
    for letter, values in (SHORT if options.short else RANGES).items():
        for value in values:
            sizes = {**STILL, letter: value}
            for form in FORMS:
                command = [sys.executable, "-m", "benchmarks.growth", "--worker", form]
                command += [str(sizes[key]) for key in "CBD"]
                environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
                done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
                points.append(
                    {"varies": letter, **sizes, "form": form, **json.loads(done.stdout.splitlines()[-1])}
                )
                print(points[-1], flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "growth.json").write_text(json.dumps(points, indent=1) + "\n")
    draw(points, options.out / "growth.svg")


def measure(form: str, classes: int, batch: int, dim: int) -> dict[str, float]:
    """Seconds of CPU and bytes of memory of a step."""
    import torch

    warnings.simplefilter("ignore")
    embeddings = torch.randn(batch, dim, requires_grad=True)
    labels = torch.randint(0, classes, (batch,))
    loss: Any
    if form == "ours":
        from lookalike.losses.proxy_anchor import ProxyAnchor

        loss, warm = ProxyAnchor(classes, dim), ProxyAnchor(40, dim)
        warm.form = "chunked"
    else:
        from pytorch_metric_learning.losses import ProxyAnchorLoss

        loss, warm = ProxyAnchorLoss(classes, dim), ProxyAnchorLoss(40, dim)
    warm(embeddings, labels % 40).backward()  # libraries and their buffers, at a small size

    def step() -> float:
        for parameter in (embeddings, *loss.parameters()):
            parameter.grad = None
        began = time.process_time()
        loss(embeddings, labels).backward()
        return time.process_time() - began

    reset_peak()
    before = peak_bytes()
    first = step()
    growth = peak_bytes() - before
    rounds = max(3, min(50, int(1 / first)))
    times = [step() for _ in range(rounds)]
    return {"seconds": statistics.median(times), "bytes": max(growth - 4 * dim * (classes + batch), 0)}


def draw(points: list[dict[str, Any]], file: Path) -> None:
    """Two rows of panels: time and memory against each of the three."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "growth"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(10, 5.5), sharey="row", layout="constrained")
    for column, (letter, label) in enumerate(LABELS.items()):
        for form, color in FORMS.items():
            line = [point for point in points if point["varies"] == letter and point["form"] == form]
            at = [point[letter] for point in line]
            axes[0, column].loglog(at, [p["seconds"] * 1e3 for p in line], "o-", color=color, label=form)
            axes[1, column].loglog(
                at, [max(p["bytes"] / 2**20, 0.1) for p in line], "o-", color=color, label=form
            )
        axes[1, column].set_xlabel(label)
        for axis in axes[:, column]:
            axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("CPU ms a step")
    axes[1, 0].set_ylabel("extra MB (0.1: none seen)")
    axes[0, 0].legend()
    figure.savefig(file, metadata={"Date": None})


if __name__ == "__main__":
    main()
