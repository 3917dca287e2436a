"""The means of one run: its split, device and folder, its network, loss and batches.

`RunContext` is what stays the same while a run goes on. The functions build what is trained; `feeding` makes its
inputs, and `selection` and `fitting` put everything in order.
"""

import inspect
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lookalike.config.experiment import Experiment
from lookalike.data.dataset import CoarseLevel
from lookalike.data.samplers import BalancedBatches, RandomBatches
from lookalike.errors import DataError
from lookalike.losses import LOSSES, MetricLoss
from lookalike.losses.sharded import Sharded
from lookalike.models import whitening
from lookalike.models.checkpoint import load_model
from lookalike.models.embedder import Embedder, build_embedder
from lookalike.models.fuse import fuse_for_inference
from lookalike.models.views import mean_over_views
from lookalike.training.context import RunContext
from lookalike.training.inputs import Batches, Inputs
from lookalike.training.trainable import TrainablePart
from lookalike.utils.validation import look_up


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
    if context.mode == "partial":
        context.frozen_stages = context.experiment.train.frozen_stages or embedder.default_frozen_stages()
        embedder.trainable_stages(context.frozen_stages)
    embedder.set_views(model.views or 1)  # `choose_views` decides where the experiment does not
    embedder.to(context.fabric.device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    return TrainablePart(embedder, context.mode, context.frozen_stages)


def embed_all(context: RunContext, trainable: TrainablePart, inputs: Inputs, *, project: bool) -> Tensor:
    """Embeddings (without `project`: pooled vectors) of every input, unaugmented, on the CPU.

    Pooled vectors are means over the embedder's views, as in its `forward`.
    """
    embedder, fast = trainable.embedder.eval(), _fast(trainable)

    def function(views: tuple[Tensor, ...]) -> Tensor:
        pooled = mean_over_views(lambda view: fast.pooled(context.fabric.to_device(view)), views)
        return fast.embedder.project(pooled) if project else pooled

    with torch.inference_mode(), context.fabric.autocast():
        share = inputs.iter_eval(*context.processes.share(len(inputs)), views=embedder.config.views)
        results = [function(views).float() for views in share]
        return context.processes.gather(torch.cat(results)).cpu().clone()  # cloned: out of inference mode


def pooled_by_view(context: RunContext, trainable: TrainablePart, inputs: Inputs, views: int) -> list[Tensor]:
    """Pooled vectors of every input, unaugmented, on the CPU: a tensor for each of its first views."""
    trainable.embedder.eval()
    fast, parts = _fast(trainable), []
    with torch.inference_mode(), context.fabric.autocast():
        for batch in inputs.iter_eval(*context.processes.share(len(inputs)), views=views):
            pooled = [fast.pooled(context.fabric.to_device(view)).float() for view in batch]
            parts.append(torch.stack(pooled, dim=1))
        every = context.processes.gather(torch.cat(parts)).cpu()
    return list(every.clone().unbind(1))  # cloned: out of inference mode


def _fast(trainable: TrainablePart) -> TrainablePart:
    """The same for inference alone, batch norms folded."""
    if trainable.mode == "frozen":
        return trainable
    return TrainablePart(fuse_for_inference(trainable.embedder), trainable.mode, trainable.frozen_stages)


def init_projection(
    context: RunContext, embedder: Embedder, form: str, pooled_NF: Tensor, labels_N: Tensor
) -> None:
    """Puts the start or finish named `form`, computed on training features, into the projection."""
    dim, features = embedder.embedding_dim, embedder.pooled_dim
    if form == "none":
        return
    if form == "whitened":
        projection = whitening.whitened(
            pooled_NF, labels_N, dim, shrinkage=context.experiment.model.shrinkage
        )
    elif form == "pca":
        projection = whitening.pca(pooled_NF, dim)
    elif form == "identity":
        projection = whitening.identity(features, dim)
    else:
        generator = torch.Generator().manual_seed(context.experiment.seed)
        init = "kaiming" if form == "kaiming" else "uniform"
        projection = whitening.random(features, dim, generator, init=init)
    embedder.set_projection(*projection)


def init_projection_and_loss(
    context: RunContext, trainable: TrainablePart, inputs: Inputs, pooled: Tensor, num_classes: int
) -> MetricLoss:
    """Sets the projection's start and returns the loss, its proxies at their start.

    Args:
        pooled: the pooled vectors of `inputs`.
    """
    experiment, embedder = context.experiment, trainable.embedder
    with context.timed("start"):
        if context.start_from is None:
            init_projection(context, embedder, experiment.model.start, pooled, inputs.labels)
        generator = torch.Generator().manual_seed(experiment.seed)
        loss = build_loss(experiment, num_classes, embedder, generator, inputs.table.coarse)
        proxies = loss.proxy_loss
        if proxies and "class_mean" in (experiment.train.proxy_start, proxies.proxy_init):
            with torch.no_grad():
                embeddings = embedder.project(pooled.to(context.fabric.device)).cpu()
            loss.initialize_proxies_at_class_means(embeddings, inputs.labels, generator)
    return loss.to(context.fabric.device)


def build_loss(
    experiment: Experiment,
    num_classes: int,
    embedder: Embedder,
    generator: torch.Generator,
    coarse: tuple[CoarseLevel, ...] = (),
) -> MetricLoss:
    """The loss that the experiment names.

    Its setting `parents` may be `given`, all coarse levels of the data, or `given:NAME`, one of them.

    Raises:
        DataError: given parents are asked for, and the data has no such coarse level.
    """
    kind = look_up(LOSSES, experiment.loss.name, "loss")
    arguments = experiment.loss.arguments
    wanted = arguments.get("parents")
    if isinstance(wanted, str):
        arguments["parents"] = _given_parents(wanted, coarse)
    known: dict[str, Any] = {"generator": generator, "channels": embedder.channels}
    given = {name: value for name, value in known.items() if name in inspect.signature(kind).parameters}
    if experiment.train.shard_proxies:
        base = {"name": experiment.loss.name, "settings": arguments}
        return Sharded(num_classes, embedder.embedding_dim, base=base, generator=generator)
    return kind(num_classes, embedder.embedding_dim, **(given | arguments))


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
    batch, seed, of = context.experiment.batch, context.experiment.seed, context.processes
    rows = labels.numpy()
    if batch.sampler == "balanced":
        return BalancedBatches(
            rows,
            classes=batch.classes,
            per_class=batch.per_class,
            seed=seed,
            rank=of.rank,
            world_size=of.size,
        )
    size = min(batch.size, len(rows))
    return RandomBatches(
        rows, batch_size=size, seed=seed, drop_last=batch.drop_last, rank=of.rank, world_size=of.size
    )
