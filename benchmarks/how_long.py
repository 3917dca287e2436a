"""How long `lookalike train` takes for 1,000, 10,000 and 100,000 images in each mode, from costs measured here.

    python -m benchmarks.how_long DATA [--json FILE] [--threads N]

The costs per image (decoding, first stages, other stages, a training step) are measured with a few images of DATA, as
`--minutes` measures them, at the default input size without a GPU; the estimate is the one that `--minutes` plans
with, for the default epochs of each mode. The classes are split as by default: 59.5 % of the images train, 10.5 %
validate and 30 % test. `disk` is the size of the cached activations.
"""

import argparse
import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lookalike.config.defaults import default_epochs
from lookalike.config.experiment import Experiment
from lookalike.config.schema import Mode
from lookalike.data.load import load_images, reading
from lookalike.models.embedder import build_embedder
from lookalike.training.budget import Candidate, Counts, estimate
from lookalike.training.costs import measure_costs
from lookalike.training.setup import resolve_experiment
from lookalike.training.trainable import FrozenPart

SHARES = (0.595, 0.105, 0.3)
MODES: tuple[Mode, ...] = ("frozen", "partial", "finetune")
VIEWS = 2


def bytes_per_image(experiment: Experiment, mode: Mode) -> int:
    """What the cache holds of one image."""
    if mode == "finetune":
        return 0
    size = experiment.data.image_size
    embedder = build_embedder(experiment.model.backbone, weights="none", size=size)
    if mode == "frozen":
        return VIEWS * 4 * 2 * embedder.channels  # average and maximum in float32
    part = FrozenPart(embedder, "activations", embedder.default_frozen_stages())
    with torch.inference_mode():
        outputs = part.for_inference()(torch.zeros(1, 3, size or 0, size or 0, dtype=torch.uint8))
    return VIEWS * outputs.numel() * np.dtype(part.dtype).itemsize


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    table = load_images(given.data, **reading(Experiment().data))
    rows: list[dict[str, Any]] = []
    for mode in MODES:
        chosen = Experiment().override([f"train.mode={mode}"])
        split = chosen.split(table)
        experiment = resolve_experiment(chosen, split, accelerator="cpu")
        size = experiment.data.image_size or 0
        costs = measure_costs(experiment, mode, table, (size // 2, size), torch.device("cpu"))
        for images in (1_000, 10_000, 100_000):
            counts = Counts(*(round(share * images) for share in SHARES))
            epochs = default_epochs(mode, images=counts.train, batch=experiment.batch.images)
            phases = estimate(Candidate(mode, size, epochs), costs, counts, views=VIEWS)
            rows.append(
                {
                    "mode": mode,
                    "image_size": size,
                    "epochs": epochs,
                    "images": images,
                    "minutes": sum(phases.values()) / 60,
                    "phases": {name: seconds / 60 for name, seconds in phases.items()},
                    "disk_gb": bytes_per_image(experiment, mode) * (1 - SHARES[2]) * images / 1e9,
                }
            )
    print(f"{given.data}, {given.threads} threads, {date.today()}\n")
    print(
        "| mode | input, epochs | 1,000 images | 10,000 | 100,000 | disk for 100,000 |\n" + "|---" * 6 + "|"
    )
    for mode in MODES:
        of_mode = [row for row in rows if row["mode"] == mode]
        times = " | ".join(_duration(row["minutes"]) for row in of_mode)
        last = of_mode[-1]
        epochs_of = " / ".join(dict.fromkeys(str(row["epochs"]) for row in of_mode))
        print(f"| {mode} | {last['image_size']} px, {epochs_of} | {times} | {last['disk_gb']:.1f} GB |")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def _duration(minutes: float) -> str:
    return f"{minutes:.1f} min" if minutes < 100 else f"{minutes / 60:.1f} h"


if __name__ == "__main__":
    main()
