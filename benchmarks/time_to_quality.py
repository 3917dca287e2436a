"""Time to quality: our loop beside a plain pytorch-metric-learning (PML) loop that learns from the same batches.

    python -m benchmarks.time_to_quality cars196.zip [--threads N] [--rounds 3] [--losses NAME ...]
        [--epochs 15] [--budget 300] [--every STEPS] [--only frozen|partial] [--short]

The clock runs through training and validation until map_at_r of the validation classes first reaches a level
that both sides reach. Both start from the same weights and proxies and get the same batches, optimizer, rates
and (constant) schedule; the run stops if the loss of the first step, map_at_r of the start or the order of
the batches differ.

frozen   the features of a network that stays as it is are made once, for both. Ours: `train` on them. Plain: a
         TensorDataset and DataLoader, a linear layer, PML's loss, torch's AdamW, PML's AccuracyCalculator.
partial  the last stages of the network train for a CPU budget: each side ends with the first validation after
         it, and after one epoch at least. Ours: mode partial, the making of its cache included. Plain: images
         are decoded and run through the frozen first stages in every epoch. Plain, cached: the plain loop on
         a cache like ours, the making of it included, so that the loops alone differ.

All sides alternate in one process, which keeps freed memory as `lookalike` on the command line does, and decode
in it (no workers), so the CPU seconds are those of the whole work. Ours also measures every metric of
`evaluate` and keeps the weights of the best epoch; the plain loop finds map_at_r and precision_at_1, and keeps
nothing.
"""

import argparse
import copy
import math
import os
import platform
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from pytorch_metric_learning import losses as pml
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks import Seconds, clock
from benchmarks.curves import Curve, Slices, check, facts, level_table, median
from benchmarks.jobs import build_context
from lookalike.__main__ import _keep_freed_memory
from lookalike.data.dataset import LabeledImages
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.read import read
from lookalike.data.transforms import EvalTransform
from lookalike.losses import MetricLoss
from lookalike.models.batch_norm import freeze_batch_norm
from lookalike.models.embedder import Embedder
from lookalike.training.context import RunContext
from lookalike.training.embed_inputs import embed_all
from lookalike.training.evaluate_run import score
from lookalike.training.inputs import CachedInputs, build_cache, build_inputs
from lookalike.training.loop import train
from lookalike.training.projection import init_projection_and_loss
from lookalike.training.setup import build_batch_sampler, build_network
from lookalike.training.state import TrainingState
from lookalike.training.trainable import TrainablePart

SHORT_IMAGES = 4000
BLOCK = 64
"""Images at a time in the plain loop's validation."""
ENDLESS = 10**6


class Peer(NamedTuple):
    """PML's form of one of our losses: `make(C, D)`, the name of its proxies, whether they are columns, and
    what has to be set in ours for the two to be the same function."""

    make: Callable[[int, int], nn.Module]
    proxies: str
    columns: bool = False
    settings: tuple[str, ...] = ()


PEERS = {
    "proxy_anchor": Peer(lambda c, d: pml.ProxyAnchorLoss(c, d, margin=0.1, alpha=32), "proxies"),
    "norm_softmax": Peer(lambda c, d: pml.NormalizedSoftmaxLoss(c, d, temperature=0.05), "W", columns=True),
    "soft_triple": Peer(
        lambda c, d: pml.SoftTripleLoss(c, d, centers_per_class=10, la=20, gamma=0.1, margin=0.01),
        "fc",
        columns=True,
        settings=("loss.center_weight=0",),  # PML's has no such term
    ),
}


@dataclass(frozen=True)
class Start:
    """What both sides start from; `seconds` is what the cached inputs took."""

    context: RunContext
    trainable: TrainablePart
    loss: MetricLoss
    inputs: CachedInputs
    held: CachedInputs
    seconds: Seconds

    def network(self) -> Embedder:
        """A fresh copy of the untrained network, with the whitened projection."""
        return copy.deepcopy(self.trainable.embedder)

    def peer(self) -> nn.Module:
        """PML's loss, its proxies where ours start."""
        peer = PEERS[self.context.experiment.loss.name]
        criterion = peer.make(self.loss.num_classes, self.loss.embedding_dim)
        ours = self.loss.proxy_loss
        assert ours is not None
        with torch.no_grad():
            criterion.get_parameter(peer.proxies).copy_(ours.proxies.T if peer.columns else ours.proxies)
        return criterion

    def batches(self, every: int | None) -> Slices:
        """The batches from the first on."""
        return Slices(build_batch_sampler(self.context, self.inputs.labels), every)

    def describe(self) -> str:
        """The settings of both sides."""
        experiment = self.context.experiment
        rates = experiment.train
        backbone = (
            f"backbone {rates.lr:g} (stages from {self.trainable.frozen_stages} on), "
            if self.trainable.frozen_stages
            else ""
        )
        return (
            f"{experiment.loss.name}, {experiment.model.backbone} at {experiment.data.image_size} px, "
            f"D {self.loss.embedding_dim}; {len(self.inputs):,} training images of {self.loss.num_classes} "
            f"classes, {len(self.held):,} validation images of {self.held.table.num_classes}\n"
            f"batch {experiment.batch.size}, {rates.optimizer}, rates: {backbone}head {rates.head_lr:g}, "
            f"proxies {rates.proxy_lr:g}; weight decay {rates.weight_decay:g}, seed {experiment.seed}"
        )


def prepare(table: LabeledImages, settings: list[str], folder: Path) -> Start:
    """The start of a run with these settings."""
    context = build_context(table, ["data.workers=0", *settings], folder)
    trainable = build_network(context)
    began = clock()
    cache = build_cache(context, trainable, context.split.trainval)
    inputs, held = (
        build_inputs(context, trainable, part, cache)
        for part in (context.split.train, context.split.validation)
    )
    seconds = clock() - began
    assert isinstance(inputs, CachedInputs)
    assert isinstance(held, CachedInputs)
    return Start(
        context,
        trainable,
        init_projection_and_loss(
            context,
            trainable,
            inputs,
            embed_all(context, trainable, inputs, project=False),
        ),
        inputs,
        held,
        seconds,
    )


class BudgetSpent(Exception):
    """Ends our loop."""


def ours(
    start: Start, batches: Slices, *, epochs: int, budget: float = math.inf, already: Seconds | float = 0.0
) -> Curve:
    """`train`, as a run of `lookalike` calls it."""
    trainable = TrainablePart(start.network(), start.trainable.mode, start.trainable.frozen_stages)
    loss = copy.deepcopy(start.loss)
    curve = Curve("ours", already)
    loss.register_forward_hook(lambda module, given, value: curve.step(value))
    settings = start.context.experiment.train

    def measure() -> dict[str, float]:
        with curve.validating():
            matrix = embed_all(start.context, trainable, start.held, project=True).numpy()
            return {"map_at_r": score(start.held.table, matrix)["map_at_r"]}

    def on_epoch(state: TrainingState) -> None:
        curve.add(state.history[-1]["validation"]["map_at_r"])
        if curve.spent(budget):
            raise BudgetSpent

    with suppress(BudgetSpent):
        train(
            trainable,
            loss,
            start.inputs,
            batches,
            settings.model_copy(update={"epochs": epochs, "patience": None}),
            fabric=start.context.fabric,
            seed=start.context.experiment.seed,
            evaluate=measure,
            on_epoch=on_epoch,
        )
    return curve


def plain(
    curve: Curve,
    network: nn.Module,
    criterion: nn.Module,
    groups: list[dict[str, Any]],
    data: Dataset[Any],
    held: Dataset[Any],
    batches: Slices,
    *,
    weight_decay: float,
    epochs: int,
    budget: float = math.inf,
) -> Curve:
    """The loop that one writes around PML's losses and its AccuracyCalculator."""
    calculator = AccuracyCalculator(
        include=("mean_average_precision_at_r", "precision_at_1"),
        k="max_bin_count",
        device=torch.device("cpu"),
    )
    optimizer = torch.optim.AdamW(groups, weight_decay=weight_decay)
    loader = DataLoader(data, batch_sampler=batches)
    held_loader = DataLoader(held, batch_size=BLOCK)

    def validate() -> None:
        with curve.validating():
            network.eval()
            with torch.no_grad():
                found = [(functional.normalize(network(inputs)), labels) for inputs, labels in held_loader]
            embeddings, labels = (torch.cat(part) for part in zip(*found, strict=True))
            value = calculator.get_accuracy(embeddings, labels)["mean_average_precision_at_r"]
        curve.add(value)

    validate()
    for epoch in range(1, epochs + 1):
        if curve.spent(budget):
            break
        batches.set_epoch(epoch)
        if isinstance(data, Views):
            data.set_epoch(epoch)
        network.train()
        freeze_batch_norm(network, affine_trained=True)
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = criterion(network(inputs), labels)
            loss.backward()
            optimizer.step()
            curve.step(loss)
        validate()
    return curve


def plain_frozen(start: Start, batches: Slices, *, epochs: int) -> Curve:
    """A linear layer on features that are pooled once."""
    rates = start.context.experiment.train
    projection, criterion = start.network().projection, start.peer()
    curve = Curve("plain")

    def features(inputs: CachedInputs) -> TensorDataset:
        return TensorDataset(torch.cat([image for (image,) in inputs.iter_eval()]), inputs.labels)

    groups = [
        {"params": projection.parameters(), "lr": rates.head_lr},
        {"params": criterion.parameters(), "lr": rates.proxy_lr},
    ]
    data, held = features(start.inputs), features(start.held)
    decay = rates.weight_decay
    return plain(curve, projection, criterion, groups, data, held, batches, weight_decay=decay, epochs=epochs)


class Views(Dataset[tuple[Tensor, Tensor]]):
    """`get(row, view)` with the row's label; the views of an epoch are those of `CachedInputs`."""

    def __init__(self, get: Callable[[int, int], Tensor], inputs: CachedInputs, *, views: int) -> None:
        self.get, self.labels, self.views, self.seed = get, inputs.labels, views, inputs.seed
        self.set_epoch(1)

    def set_epoch(self, epoch: int) -> None:
        """Chooses a view of each row."""
        self.drawn = np.full(len(self.labels), epoch - 1)
        if epoch > self.views:
            self.drawn = np.random.default_rng([self.seed, epoch]).integers(self.views, size=len(self.labels))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        return self.get(row, int(self.drawn[row])), self.labels[row]


class LastStages(nn.Module):
    """The network whose first `cut` stages do not train: of images, or of what those stages gave."""

    def __init__(self, embedder: Embedder, cut: int, *, of_images: bool) -> None:
        super().__init__()
        self.embedder, self.of_images = embedder, of_images
        self.first, self.last = embedder.frozen_part(cut), embedder.trainable_stages(cut)
        self.first.requires_grad_(False)

    def forward(self, inputs: Tensor) -> Tensor:
        if self.of_images:
            with torch.no_grad():
                inputs = self.first(inputs)
        return self.embedder.embed_maps(self.last(inputs.float()))


def plain_partial(start: Start, batches: Slices, *, cached: bool, epochs: int, budget: float) -> Curve:
    """The last stages on images, decoded and mirrored in every epoch; or on the cached activations."""
    experiment = start.context.experiment
    network = LastStages(start.network(), start.trainable.frozen_stages, of_images=not cached)
    criterion, rates = start.peer(), experiment.train
    curve = Curve("plain, cached", start.seconds) if cached else Curve("plain")
    projection = network.embedder.projection
    groups = [
        {"params": network.last.parameters(), "lr": rates.lr},
        {"params": projection.parameters(), "lr": rates.head_lr},
        {"params": criterion.parameters(), "lr": rates.proxy_lr},
    ]

    def views_of(inputs: CachedInputs, views: int) -> Views:
        images = ImageDataset(inputs.table, EvalTransform(network.embedder.preprocessing))
        inputs.cache.ensure(range(views if cached else 0))

        def image(row: int, view: int) -> Tensor:
            image, _, _ = images[row]
            return image.flip(-1) if view else image

        def activation(row: int, view: int) -> Tensor:
            return torch.from_numpy(np.array(inputs.cache.array(view)[inputs.rows[row]]))

        get = activation if cached else image
        return Views(get, inputs, views=views)

    data, held = views_of(start.inputs, rates.cached_views), views_of(start.held, 1)
    return plain(
        curve, network, criterion, groups, data, held, batches,
        weight_decay=rates.weight_decay, epochs=epochs, budget=budget,
    )  # fmt: skip


def frozen(
    table: LabeledImages,
    settings: list[str],
    folder: Path,
    *,
    epochs: int,
    rounds: int,
    every: int | None = None,
) -> tuple[Curve, Curve]:
    """Ours and plain on features that were made once; prints the account."""
    start = prepare(table, [*settings, "train.mode=frozen"], folder)
    wall, cpu = start.seconds
    print(f"\nfrozen: {start.describe()}")
    print(f"features, common: {wall:.1f} s (CPU {cpu:.1f}; little if an earlier run left them in the cache)")
    curves: dict[str, list[Curve]] = {"ours": [], "plain": []}
    for number in range(rounds):
        batches = {name: start.batches(every) for name in curves}
        for name in sorted(curves, reverse=number % 2 == 1):
            run = ours if name == "ours" else plain_frozen
            curves[name].append(run(start, batches[name], epochs=epochs))
        said = check(curves["ours"][-1], curves["plain"][-1], batches["ours"], batches["plain"])
    mine, theirs = median(curves["ours"]), median(curves["plain"])
    print(f"{said}\n{facts(mine)}\n{facts(theirs)}\nmedians of {rounds} rounds:\n{level_table(mine, theirs)}")
    return mine, theirs


def partial(
    table: LabeledImages,
    settings: list[str],
    folder: Path,
    *,
    budget: float,
    epochs: int = ENDLESS,
    every: int | None = None,
) -> tuple[Curve, Curve, Curve]:
    """Ours, plain, and plain on our cache, for `budget` CPU seconds each; prints the account."""
    settings = [*settings, "train.mode=partial"]
    with cold_cache(folder / "ours"):
        start = prepare(table, settings, folder)
        my_batches, plain_batches = (start.batches(every) for _ in range(2))
        print(f"\npartial, {budget:g} CPU seconds a side: {start.describe()}")
        print(f"an epoch is {my_batches.every} of {len(my_batches.inner)} batches", flush=True)
        mine = ours(start, my_batches, epochs=epochs, budget=budget, already=start.seconds)
    print(facts(mine), flush=True)
    with cold_cache(folder / "plain"):
        again = prepare(table, settings, folder)
        cached_batches = again.batches(every)
        cached = plain_partial(again, cached_batches, cached=True, epochs=epochs, budget=budget)
    print(facts(cached), flush=True)
    print(check(mine, cached, my_batches, cached_batches), flush=True)
    theirs = plain_partial(start, plain_batches, cached=False, epochs=epochs, budget=budget)
    print(facts(theirs), flush=True)
    print(check(mine, theirs, my_batches, plain_batches))
    print(f"{level_table(mine, theirs)}\n\n{level_table(mine, cached)}")
    return mine, theirs, cached


@contextmanager
def cold_cache(folder: Path) -> Iterator[None]:
    """A cache of its own, so that it is made, and timed."""
    usual = os.environ.get("LOOKALIKE_CACHE")
    os.environ["LOOKALIKE_CACHE"] = str(folder)
    try:
        yield
    finally:
        del os.environ["LOOKALIKE_CACHE"]
        if usual is not None:
            os.environ["LOOKALIKE_CACHE"] = usual


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="?", default="glyphs")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3, help="of frozen")
    parser.add_argument("--losses", nargs="+", choices=PEERS, default=["proxy_anchor"], help="of frozen")
    parser.add_argument("--epochs", type=int, default=15, help="of frozen")
    parser.add_argument("--budget", type=float, default=300, help="CPU seconds of each side of partial")
    parser.add_argument("--every", type=int, help="steps between validations; an epoch by default")
    parser.add_argument("--only", choices=("frozen", "partial"))
    parser.add_argument("--short", action="store_true", help="frozen, 3 epochs, few images, random start")
    options = parser.parse_args()
    import faiss

    torch.set_num_threads(options.threads)
    faiss.omp_set_num_threads(options.threads)
    _keep_freed_memory()
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {options.threads} threads, "
        f"load {os.getloadavg()[0]:.1f} at the start; torch {torch.__version__}, pytorch-metric-learning "
        f"{version('pytorch-metric-learning')}, faiss {faiss.__version__}"
    )
    table = read(options.data)
    start = []
    if options.short:
        step = -(-len(table) // SHORT_IMAGES)
        table = table.of_classes(range(0, table.num_classes, step))
        start = ["model.start=random"]
    epochs = min(options.epochs, 3) if options.short else options.epochs
    with tempfile.TemporaryDirectory() as folder:
        if options.only != "partial":
            for name in options.losses:
                settings = [f"loss.name={name}", *PEERS[name].settings, *start]
                frozen(
                    table,
                    settings,
                    Path(folder),
                    epochs=epochs,
                    rounds=options.rounds,
                    every=options.every,
                )
        if options.only != "frozen" and not options.short:
            settings = ["loss.name=proxy_anchor"]
            partial(table, settings, Path(folder), budget=options.budget, every=options.every)


if __name__ == "__main__":
    main()
