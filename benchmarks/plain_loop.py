"""The training loop that one writes around pytorch-metric-learning (PML), from the same start as ours.

It has PML's loss and AccuracyCalculator, a DataLoader and torch's AdamW, and multiplies its rates by the same factors.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from pytorch_metric_learning import losses as pml
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks import Seconds
from benchmarks.curves import Curve, RecordedBatches
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.transforms import EvalTransform
from lookalike.losses import MetricLoss
from lookalike.models.batch_norm import freeze_batch_norm
from lookalike.models.embedder import Embedder
from lookalike.optim.schedules import lr_factor
from lookalike.training.context import RunContext
from lookalike.training.inputs import CachedInputs
from lookalike.training.setup import build_batch_sampler
from lookalike.training.trainable import TrainablePart

BLOCK = 64
"""Images at a time in the plain loop's validation."""


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
    """What all sides start from; `seconds` is what the cached inputs took."""

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

    def batches(self) -> RecordedBatches:
        """The batches from the first epoch on."""
        return RecordedBatches(build_batch_sampler(self.context, self.inputs.labels))

    def describe(self) -> str:
        """The settings of all sides."""
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
            f"proxies {rates.proxy_lr:g}, {rates.schedule.name} over {rates.epochs} epochs; "
            f"weight decay {rates.weight_decay:g}, seed {experiment.seed}"
        )


def train_frozen(start: Start, batches: RecordedBatches) -> Curve:
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
    return _train(start, curve, projection, criterion, groups, data=data, held=held, batches=batches)


def train_partial(start: Start, batches: RecordedBatches, *, cached: bool) -> Curve:
    """The last stages on images, decoded and mirrored in every epoch; or on the cached activations."""
    rates = start.context.experiment.train
    network = LastStages(start.network(), start.trainable.frozen_stages, of_images=not cached)
    criterion = start.peer()
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

        return Views(activation if cached else image, inputs, views=views)

    data, held = views_of(start.inputs, rates.cached_views), views_of(start.held, 1)
    return _train(start, curve, network, criterion, groups, data=data, held=held, batches=batches)


def _train(
    start: Start,
    curve: Curve,
    network: nn.Module,
    criterion: nn.Module,
    groups: list[dict[str, Any]],
    *,
    data: Dataset[Any],
    held: Dataset[Any],
    batches: RecordedBatches,
) -> Curve:
    """The loop; validates before the first epoch and after each."""
    settings = start.context.experiment.train
    epochs = settings.epochs or 0
    calculator = AccuracyCalculator(
        include=("mean_average_precision_at_r", "precision_at_1"),
        k="max_bin_count",
        device=torch.device("cpu"),
    )
    optimizer = torch.optim.AdamW(groups, weight_decay=settings.weight_decay)
    rates = [group["lr"] for group in optimizer.param_groups]
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
        batches.set_epoch(epoch)
        if isinstance(data, Views):
            data.set_epoch(epoch)
        network.train()
        freeze_batch_norm(network, affine_trained=True)
        for step, (inputs, labels) in enumerate(loader):
            done = (step + 0.5) / len(batches)
            factor = lr_factor(settings.schedule, epoch=epoch, epochs=epochs, metrics=[], done=done)
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            optimizer.zero_grad()
            loss = criterion(network(inputs), labels)
            loss.backward()
            optimizer.step()
            curve.step(loss)
        validate()
    return curve


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
