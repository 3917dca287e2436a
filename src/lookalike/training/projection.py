"""Sets the projection: its start before training, with the proxies of the loss, and its closed form after it."""

import torch
from torch import Tensor

from lookalike.errors import ArgumentError
from lookalike.losses import MetricLoss
from lookalike.models import projections, whitening
from lookalike.models.embedder import Embedder
from lookalike.training.context import RunContext
from lookalike.training.inputs import Inputs
from lookalike.training.setup import build_loss
from lookalike.training.start_from import keep_proxies
from lookalike.training.trainable import TrainablePart


def init_projection(
    context: RunContext, embedder: Embedder, form: str, pooled_NF: Tensor, labels_N: Tensor
) -> None:
    """Sets the projection to the start or finish named `form`, computed on training features."""
    dim, features = embedder.embedding_dim, embedder.pooled_dim
    if form == "none":
        return
    if form == "whitened":
        parts = 2 if embedder.config.pooling == "catavgmax" else 1  # those of concat have the same length
        projection = whitening.whitened(pooled_NF, labels_N, dim, parts=parts)
    elif form == "pca":
        projection = whitening.pca(pooled_NF, dim)
    elif form == "identity":
        projection = projections.identity(features, dim)
    else:
        generator = torch.Generator().manual_seed(context.experiment.seed)
        init = "kaiming" if form == "kaiming" else "uniform"
        projection = projections.random(features, dim, generator, init=init)
    embedder.set_projection(*projection)


def init_start(context: RunContext, embedder: Embedder, pooled_NF: Tensor, labels_N: Tensor) -> None:
    """Sets the projection to `model.start`; where images are too few or alike, to a simpler start, and says so.

    Raises:
        ArgumentError: a start without statistics cannot be set either.
    """
    start = context.experiment.model.start
    simpler = {"whitened": ("whitened", "pca", "random"), "pca": ("pca", "random")}.get(start, (start,))
    for form in simpler[:-1]:
        try:
            init_projection(context, embedder, form, pooled_NF, labels_N)
        except ArgumentError as error:
            context.progress.warn(f"model.start={form} is not possible here: {error}")
        else:
            return
    init_projection(context, embedder, simpler[-1], pooled_NF, labels_N)


def init_projection_and_loss(
    context: RunContext, trainable: TrainablePart, inputs: Inputs, pooled: Tensor
) -> MetricLoss:
    """Sets the projection's start and returns the loss, its proxies at their start.

    Args:
        pooled: the pooled vectors of `inputs`.
    """
    experiment, embedder = context.experiment, trainable.embedder
    if context.start_from is None:
        init_start(context, embedder, pooled, inputs.labels)
    generator = torch.Generator().manual_seed(experiment.seed)
    loss = build_loss(
        experiment,
        inputs.table.num_classes,
        embedder.embedding_dim,
        channels=embedder.channels,
        generator=generator,
        coarse=inputs.table.coarse,
    )
    proxies = loss.proxy_loss
    if proxies and not experiment.train.compat.random_proxies:
        with torch.no_grad():
            embeddings = embedder.project(pooled.to(context.fabric.device)).cpu()
        loss.initialize_proxies_at_class_means(embeddings, inputs.labels, generator)
    if context.start_from is not None:
        keep_proxies(context, inputs.table.class_names, loss)
    return loss.to(context.fabric.device)
