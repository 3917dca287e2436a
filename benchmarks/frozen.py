"""An epoch of mode frozen beside its matrix products, and beside a plain loop with pytorch-metric-learning.

    python -m benchmarks.frozen [--threads N] [--features 1280] [--dim 512] [--classes 98] [--batch 90]
        [--images 6800] [--rounds 5]

Contenders take turns, an epoch each, after an epoch that is not counted; medians, in samples a second.

floor  the products alone: projection forward and its weight's gradient, and the loss's three (cosines, and the
       gradients by embeddings and by proxies), into ready memory
ours   `lookalike.training.loop.train` in mode frozen: a memory-mapped cache, Proxy-Anchor, AdamW
peer   the same model and rates in a plain loop over pooled features in memory, pytorch-metric-learning's
       ProxyAnchorLoss, torch.optim.AdamW as it comes

Then the parts of one of our steps, each measured alone on ready data; "the loop" is what they leave of the
epoch. Freed memory is reused, as `lookalike` on the command line does. Read the CPU seconds of one thread on a
machine that others use too.
"""

import argparse
import tempfile
import warnings
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks import Seconds, clock
from lookalike.__main__ import _keep_freed_memory
from lookalike.config.schema import TrainSettings
from lookalike.data.dataset import LabeledImages
from lookalike.data.samplers import RandomBatches
from lookalike.losses import ProxyAnchor
from lookalike.models.config import EmbedderConfig
from lookalike.models.embedder import Embedder
from lookalike.models.networks import Architecture
from lookalike.optim.factory import build_optimizers
from lookalike.preprocessing import Preprocessing
from lookalike.training.inputs import CachedInputs
from lookalike.training.launch import launch
from lookalike.training.loop import train
from lookalike.training.trainable import TrainablePart


@dataclass(frozen=True)
class OneView:
    """Features in one array, as `FeatureCache` gives them."""

    features: NDArray[np.float32]

    def ensure(self, view: int) -> None:
        """They are there."""

    def array(self, view: int) -> NDArray[np.float32]:
        """All of them."""
        return self.features

    def rows(self, table: LabeledImages) -> NDArray[np.int64]:
        """Every row, in order."""
        return np.arange(len(table))


SETTINGS = TrainSettings(mode="frozen", epochs=2, head_lr=1e-3, proxy_lr=1e-2, lr=1e-3)


class Problem:
    """Synthetic cached features, drawn around their classes' centers, and what is trained on them."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        torch.manual_seed(0)
        self.batch, self.dim, self.classes = options.batch, options.dim, options.classes
        self.features, images = options.features, options.images
        labels = np.arange(images) % self.classes
        centers = np.random.default_rng(0).random((self.classes, self.features), dtype=np.float32)
        noise = np.random.default_rng(1).random((images, self.features), dtype=np.float32)
        np.save(folder / "cache.npy", centers[labels] + noise)
        table = LabeledImages(
            folder,
            tuple(f"{row}.jpg" for row in range(images)),
            labels,
            tuple(f"class {label}" for label in range(self.classes)),
        )
        array = np.load(folder / "cache.npy", mmap_mode="r")
        self.inputs = CachedInputs(OneView(array), table)
        self.batches = RandomBatches(labels, batch_size=self.batch)
        self.fabric = launch("cpu", 1, "32-true")

    def model(self) -> tuple[TrainablePart, ProxyAnchor]:
        """A projection behind a backbone that is never run, and a loss."""
        config = EmbedderConfig(
            backbone="none",
            architecture=Architecture("none"),
            channels=self.features,
            pooling="average",
            k=1,
            norm="none",
            embedding_dim=self.dim,
            bias=True,
            preprocessing=Preprocessing(),
            weights_origin="none",
            weights_license="none",
        )
        embedder = Embedder(nn.Identity(), config)
        return TrainablePart(embedder, "frozen"), ProxyAnchor(self.classes, self.dim)

    def pooled(self) -> Tensor:
        """All features, in memory."""
        return torch.cat([image for (image,) in self.inputs.iter_eval()])


def ours(problem: Problem) -> Seconds:
    """Seconds of the second of two epochs."""
    trainable, loss = problem.model()
    ends: list[Seconds] = []
    train(
        trainable,
        loss,
        problem.inputs,
        problem.batches,
        SETTINGS,
        fabric=problem.fabric,
        seed=0,
        evaluate=None,
        on_epoch=lambda state: ends.append(clock()),
    )
    return ends[2] - ends[1]


def floor(problem: Problem, pooled: Tensor) -> Seconds:
    """Seconds of an epoch of products."""
    batch, dim, classes, features = problem.batch, problem.dim, problem.classes, problem.features
    x_BF, weight_DF, to_weight_DF = pooled[:batch], torch.randn(dim, features), torch.empty(dim, features)
    y_BD, to_y_BD = torch.randn(batch, dim), torch.empty(batch, dim)
    proxies_CD, to_proxies_CD = torch.randn(classes, dim), torch.empty(classes, dim)
    cosines_BC, slopes_BC = torch.empty(batch, classes), torch.randn(batch, classes)
    began = clock()
    for _ in range(len(problem.batches)):
        torch.mm(x_BF, weight_DF.T, out=y_BD)
        torch.mm(y_BD, proxies_CD.T, out=cosines_BC)
        torch.mm(slopes_BC, proxies_CD, out=to_y_BD)
        torch.mm(slopes_BC.T, y_BD, out=to_proxies_CD)
        torch.mm(y_BD.T, x_BF, out=to_weight_DF)
    return clock() - began


def peer(problem: Problem, pooled: Tensor) -> Seconds:
    """Seconds of an epoch of the plain loop."""
    from pytorch_metric_learning.losses import ProxyAnchorLoss

    model = nn.Linear(problem.features, problem.dim)
    loss = ProxyAnchorLoss(problem.classes, problem.dim, margin=0.1, alpha=32)
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters(), "lr": 1e-3}, {"params": loss.parameters(), "lr": 1e-2}],
        weight_decay=1e-4,
    )
    labels = problem.inputs.labels
    began = clock()
    total = 0.0
    for rows in torch.randperm(len(pooled)).split(problem.batch):
        optimizer.zero_grad()
        value = loss(model(pooled[rows]), labels[rows])
        value.backward()
        optimizer.step()
        total += value.item()
    return clock() - began


def parts(problem: Problem, pooled: Tensor) -> dict[str, Seconds]:
    """Seconds of an epoch of each part of a step alone."""
    trainable, loss = problem.model()
    steps = len(problem.batches)
    rows = list(problem.batches)
    _, labels = next(problem.inputs.batches(rows))
    optimizers = build_optimizers(SETTINGS, trainable, loss, problem.fabric)
    embeddings = trainable.embedder.project(pooled[: len(labels)]).detach().requires_grad_()
    ones = torch.randn_like(embeddings)
    parameters = [*trainable.embedder.parameters(), *loss.parameters()]

    def project() -> None:
        trainable.embedder.projection.zero_grad()
        trainable.embedder.project(pooled[: len(labels)]).backward(ones)

    def take_loss() -> None:
        loss.zero_grad()
        loss(embeddings, labels).backward()

    project()
    take_loss()
    gradients = [parameter.grad for parameter in parameters]

    def step() -> None:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        optimizers.step(SETTINGS)

    began = clock()
    for _ in problem.inputs.batches(rows):
        pass
    seconds = {"gathering rows of the cache": clock() - began}
    for name, part in {
        "projection, forward and backward": project,
        "loss, forward and backward": take_loss,
        "optimizer": step,
    }.items():
        began = clock()
        for _ in range(steps):
            part()
        seconds[name] = clock() - began
    return seconds


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, value in (("features", 1280), ("dim", 512), ("classes", 98), ("batch", 90), ("images", 6800)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    _keep_freed_memory()
    torch.set_num_threads(options.threads)
    spent: defaultdict[str, list[Seconds]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        problem = Problem(options, Path(folder))
        pooled = problem.pooled()
        for _ in range(options.rounds + 1):
            spent["floor"].append(floor(problem, pooled))
            spent["ours"].append(ours(problem))
            spent["peer"].append(peer(problem, pooled))
            for name, seconds in parts(problem, pooled).items():
                spent[name].append(seconds)
    epochs = {name: np.median(times[1:], axis=0) for name, times in spent.items()}
    steps = len(problem.batches)
    print(
        f"{steps} batches of {options.batch}, {options.features} features to {options.dim}, {options.classes} "
        f"classes, {options.threads} threads"
    )
    print("        samples/s  x floor   by CPU seconds  x floor")
    for name in ("floor", "ours", "peer"):
        (rate, cpu_rate), (ratio, cpu_ratio) = options.images / epochs[name], epochs[name] / epochs["floor"]
        print(f"{name:6} {rate:10,.0f} {ratio:8.2f} {cpu_rate:16,.0f} {cpu_ratio:8.2f}")
    found = {name: times for name, times in epochs.items() if name not in ("floor", "ours", "peer")}
    found["the loop"] = epochs["ours"] - sum(found.values())
    print("ms a step of ours                     wall     CPU")
    for name, seconds in found.items():
        wall, cpu = seconds / steps * 1000
        print(f"  {name:34} {wall:5.2f} {cpu:7.2f}")


if __name__ == "__main__":
    main()
