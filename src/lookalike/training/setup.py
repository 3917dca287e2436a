"""Builds what a run trains: processes, network, loss and batches."""

import inspect
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lookalike.config.experiment import Experiment
from lookalike.data.dataset import CoarseLevel, LabeledImages
from lookalike.data.image_io import image_size
from lookalike.data.samplers import BalancedBatches, RandomBatches
from lookalike.data.splits import Split
from lookalike.errors import ArgumentError, DataError
from lookalike.losses import LOSSES, MetricLoss
from lookalike.losses.sharded import Sharded
from lookalike.models.backbones import describe
from lookalike.models.checkpoint import load_model, save_model
from lookalike.models.embedder import Embedder, build_embedder
from lookalike.training.choose_precision import choose_precision
from lookalike.training.context import RunContext
from lookalike.training.inputs import Batches
from lookalike.training.launch import default_precision
from lookalike.training.trainable import TrainablePart
from lookalike.utils.progress import Progress
from lookalike.utils.validation import look_up

SAMPLED_IMAGES = 50
"""Images whose sizes are read to choose the input size."""


def resolve_experiment(
    experiment: Experiment,
    split: Split,
    *,
    accelerator: str,
    measure: bool = False,
    progress: Progress | None = None,
) -> Experiment:
    """The experiment with every None filled from the device and from a sample of the images.

    Args:
        measure: whether precisions may be chosen by a measurement (see `choose_precision`).
    """
    facts, precision = describe(experiment.model.backbone), default_precision(accelerator)
    if experiment.train.shard_proxies and precision == "16-mixed":
        precision = "32-true"  # see `Experiment.check`
    resolved = experiment.resolve(
        gpu=accelerator != "cpu",
        precision=precision,
        short_side=median_short_side(split.trainval),
        backbone_size=facts.preprocessing.size,
        patch=facts.patch,
        images=len(split.train),
    )
    mode, size = resolved.train.mode, resolved.data.image_size
    if not measure or mode is None or size is None:
        return resolved
    precisions = choose_precision(
        experiment, mode=mode, size=size, accelerator=accelerator, progress=progress or Progress()
    )
    return resolved.override(precisions)


def median_short_side(table: LabeledImages) -> int:
    """Median short side of a sample of the images, in pixels."""
    sample = np.linspace(0, len(table) - 1, num=min(len(table), SAMPLED_IMAGES)).astype(int)
    return int(np.median([min(image_size(table.file(row))) for row in sample]))


def build_network(context: RunContext) -> TrainablePart:
    """The untrained network on the device (or the one of `context.start_from`), as the mode runs it.

    Raises:
        ArgumentError: mode partial with a backbone that is not a chain of stages.
    """
    model, data = context.experiment.model, context.experiment.data
    if context.start_from is not None:
        embedder, _ = load_model(context.start_from)
    else:
        embedder = build_embedder(
            model.backbone,
            weights=model.weights,
            pooling=model.pooling,
            k=model.pooling_k,
            norm=model.norm,
            embedding_dim=None if model.start == "none" else model.embedding_dim,
            size=data.image_size,
            resize=data.resize,
            seed=context.experiment.seed,
        )
    trainable = TrainablePart.of(embedder, context.mode, context.experiment.train.frozen_stages)
    if context.mode == "partial":
        embedder.trainable_stages(trainable.frozen_stages)
    embedder.set_views(model.views or 1)  # `choose_views` decides where the experiment does not
    embedder.set_precision(model.precision or "float32")
    embedder.to(context.fabric.device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    return trainable


def build_loss(
    experiment: Experiment,
    num_classes: int,
    embedding_dim: int,
    *,
    channels: int,
    generator: torch.Generator,
    coarse: tuple[CoarseLevel, ...] = (),
) -> MetricLoss:
    """The loss that the experiment names.

    Its setting `parents` may be `given`, all coarse levels of the data, or `given:NAME`, one of them.

    Args:
        channels: of the backbone's feature maps, for a loss that reads them.

    Raises:
        ArgumentError: a setting that the loss refuses.
        DataError: given parents are asked for, and the data has no such coarse level.
    """
    kind = look_up(LOSSES, experiment.loss.name, "loss")
    arguments = experiment.loss.arguments
    wanted = arguments.get("parents")
    if isinstance(wanted, str):
        arguments["parents"] = _given_parents(wanted, coarse)
    known: dict[str, Any] = {"generator": generator, "channels": channels, "seed": experiment.seed}
    given = {name: value for name, value in known.items() if name in inspect.signature(kind).parameters}
    if experiment.train.shard_proxies:
        base = {"name": experiment.loss.name, "settings": arguments}
        return Sharded(num_classes, embedding_dim, base=base, generator=generator)
    try:
        return kind(num_classes, embedding_dim, **(given | arguments))
    except AssertionError as error:  # how pytorch-metric-learning refuses
        raise ArgumentError(f"loss '{experiment.loss.name}' refuses its settings: {error}") from error


def _given_parents(wanted: str, coarse: tuple[CoarseLevel, ...]) -> list[Any]:
    word, _, name = wanted.partition(":")
    levels = [level.parents for level in coarse if name in ("", level.name)]
    if word != "given" or not levels:
        has = ", ".join(level.name for level in coarse) or "none"
        raise DataError(
            f"loss.parents is '{wanted}', but the coarse levels of the data are: {has}; write given, given:LEVEL, "
            "or leave the setting out"
        )
    return [np.unique(parents, return_inverse=True)[1] for parents in levels]


def build_batch_sampler(context: RunContext, labels: Tensor) -> Batches:
    """The sampler that the experiment names."""
    batch, seed, processes = context.experiment.batch, context.experiment.seed, context.processes
    rows = labels.numpy()
    if batch.sampler == "balanced":
        return BalancedBatches(
            rows,
            classes=batch.classes,
            per_class=batch.per_class,
            seed=seed,
            rank=processes.rank,
            world_size=processes.size,
        )
    return RandomBatches(
        rows,
        batch_size=min(batch.size, len(rows)),
        seed=seed,
        drop_last=batch.drop_last,
        rank=processes.rank,
        world_size=processes.size,
    )


def save_best_model(context: RunContext, embedder: Embedder) -> None:
    """Writes the model into the run directory."""
    save_model(context.run_dir.path, embedder, class_names=context.split.trainval.class_names)
