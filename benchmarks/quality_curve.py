"""Quality against minutes: `lookalike train` with its defaults beside the loop that one writes today.

    python -m benchmarks.quality_curve DATA ours  [--json FILE] [--set KEY=VALUE ...]
    python -m benchmarks.quality_curve DATA plain [--json FILE] [--epochs 3] [--every 25]
    python -m benchmarks.quality_curve --plot FILE.json FILE.svg

Each call adds a curve to FILE: map_at_r of the validation classes, after the whitened finish where there is one,
against the seconds of the processor, with one thread (a busy machine changes those least) and nothing cached before.

ours   everything that a run does until then: checks, cached activations, start, training, validation.
plain  the same backbone and weights, split and validation classes; 224 px, random resized crops and flips, the whole
       network at 1e-4, pytorch-metric-learning's Proxy-Anchor with proxies at 1e-2, torch's AdamW, a cosine to zero
       over the epochs. It is measured after every `--every` steps, and those seconds are not counted.
"""

import argparse
import json
import os
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

import torch
from pytorch_metric_learning.losses import ProxyAnchorLoss
from torch.nn import functional
from torch.utils.data import DataLoader

from lookalike.config.experiment import Experiment
from lookalike.data.dataset import LabeledImages
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.load import load_images, reading
from lookalike.data.transforms import TrainTransform
from lookalike.embedding import embed
from lookalike.models.batch_norm import freeze_batch_norm
from lookalike.models.embedder import Embedder, build_embedder
from lookalike.training.context import RunOptions
from lookalike.training.evaluate_run import score
from lookalike.training.fit import fit
from lookalike.utils.progress import Progress

BATCH, SIZE, DIM = 90, 224, 512
Points = list[tuple[float, float]]
"""(seconds of the processor, map_at_r)."""


class LogWatcher(Progress):
    """Notes the seconds at which each validation of a run is logged."""

    def __init__(self, log: Path) -> None:
        self.log, self.began = log, time.process_time()
        self.points: Points = []

    def say(self, text: str) -> None:
        """A record may be new."""
        records = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        for line in records[len(self.points) :]:
            self.points.append((time.process_time() - self.began, json.loads(line)["validation"]["map_at_r"]))
        print(f"{time.process_time() - self.began:7.0f} s  {text}", flush=True)


def ours(data: str, settings: list[str]) -> Points:
    """A run of `lookalike train` without its test."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LOOKALIKE_CACHE"] = f"{folder}/cache"
        watcher = LogWatcher(Path(folder) / "run" / "log.jsonl")
        experiment = Experiment().override(["data.workers=0", *settings])
        done = fit(
            data, Path(folder) / "run", experiment, score_test=False, options=RunOptions(progress=watcher)
        )
        chosen = done.result["candidates"]
        end = time.process_time() - watcher.began
    best = max(values["map_at_r"] for values in chosen.values())
    return [*watcher.points, (end, best)]


def plain(data: str, *, epochs: int, every: int) -> Points:
    """Fine-tuning at 224 px, written as in a notebook."""
    experiment = Experiment()
    began = time.process_time()
    split = experiment.split(load_images(data, **reading(experiment.data)))
    train, held = split.train, split.validation
    torch.manual_seed(0)
    network = build_embedder(experiment.model.backbone, pooling="average", embedding_dim=DIM, size=SIZE)
    criterion = ProxyAnchorLoss(train.num_classes, DIM, margin=0.1, alpha=32)
    optimizer = torch.optim.AdamW(
        [{"params": network.parameters(), "lr": 1e-4}, {"params": criterion.parameters(), "lr": 1e-2}],
        weight_decay=1e-4,
    )
    dataset = ImageDataset(train, TrainTransform(network.preprocessing, scale=(0.4, 1.0), flip=0.5), seed=0)
    loader = DataLoader(dataset, batch_size=BATCH, shuffle=True, drop_last=True)
    steps = epochs * len(loader)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    points, measuring, step = [(time.process_time() - began, _measure(network, held))], 0.0, 0
    for epoch in range(1, epochs + 1):
        dataset.set_epoch(epoch)
        for images, labels, _ in loader:
            network.train()
            freeze_batch_norm(network, affine_trained=True)
            optimizer.zero_grad()
            criterion(functional.normalize(network(images)), labels).backward()
            optimizer.step()
            schedule.step()
            step += 1
            if step % every == 0 or step == steps:
                now = time.process_time()
                points.append((now - began - measuring, _measure(network, held)))
                measuring += time.process_time() - now
                print(
                    f"{points[-1][0]:7.0f} s  step {step} of {steps}: {100 * points[-1][1]:.1f}", flush=True
                )
    return points


def _measure(network: Embedder, held: LabeledImages) -> float:
    network.eval()
    return score(held, embed(network, held).matrix)["map_at_r"]


def draw(curves: list[dict[str, Any]], file: Path) -> None:
    """Quality against minutes, one line per curve."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "quality"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for curve in curves:
        minutes = [seconds / 60 for seconds, _ in curve["points"]]
        axes.plot(
            minutes, [100 * value for _, value in curve["points"]], marker="o", ms=3, label=curve["name"]
        )
    axes.set(
        xlabel="minutes of one processor core",
        ylabel="map_at_r of the validation classes, %",
        xlim=(0, None),
        ylim=(0, None),
    )
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="?")
    parser.add_argument("side", nargs="?", choices=("ours", "plain"))
    parser.add_argument("--json", type=Path, default=Path("quality.json"))
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--every", type=int, default=25)
    parser.add_argument("--name")
    parser.add_argument("--plot", nargs=2, type=Path)
    given = parser.parse_args()
    if given.plot:
        draw(json.loads(given.plot[0].read_text(encoding="utf-8")), given.plot[1])
        return
    torch.set_num_threads(1)
    points = (
        ours(given.data, given.settings)
        if given.side == "ours"
        else plain(given.data, epochs=given.epochs, every=given.every)
    )
    name = given.name or ("lookalike train" if given.side == "ours" else "fine-tuning at 224 px")
    curves = json.loads(given.json.read_text(encoding="utf-8")) if given.json.exists() else []
    curves = [curve for curve in curves if curve["name"] != name]
    curves.append({"name": name, "date": str(date.today()), "points": points})
    given.json.write_text(json.dumps(curves, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
