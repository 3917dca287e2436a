"""Checks before a run writes anything: losses, batches and validation classes that cannot work."""

import numpy as np
import torch
from numpy.typing import NDArray

from lookalike.config.schema import Mode
from lookalike.data.splits import Split
from lookalike.errors import ArgumentError, DataError
from lookalike.losses import LOSSES, BatchPlanner, MetricLoss
from lookalike.models.embedder import Embedder
from lookalike.training.context import RunContext
from lookalike.training.evaluate_run import check_roles
from lookalike.training.inputs import Batches
from lookalike.training.planned_batches import check_plan
from lookalike.training.setup import build_batch_sampler, build_loss


def check_run(context: RunContext, embedder: Embedder) -> list[str]:
    """Refuses settings and data that cannot train `embedder`; returns warnings.

    Raises:
        ArgumentError: the loss or the sampler refuses a setting, or no batch has what the loss needs.
        DataError: the validation classes cannot be measured.
    """
    check_validation(context.split)
    train, experiment = context.split.train, context.experiment
    check_mode(experiment.loss.name, context.mode)
    plans = issubclass(LOSSES[experiment.loss.name], BatchPlanner)
    with torch.device(
        "cpu" if plans else "meta"
    ):  # with many classes the proxies may be large; these take no memory
        loss = build_loss(
            experiment,
            train.num_classes,
            embedder.embedding_dim,
            channels=embedder.channels,
            generator=torch.Generator("cpu"),
            coarse=train.coarse,
        )
    if context.processes.size > 1 and (isinstance(loss, BatchPlanner) or loss.needs_feature_maps):
        raise ArgumentError(f"loss '{experiment.loss.name}' trains in one process; use --devices 1")
    labels = torch.from_numpy(train.labels.copy())
    if isinstance(loss, BatchPlanner):
        check_plan(loss, labels, experiment.batch)
        return []
    batches = build_batch_sampler(context, labels)
    return check_pairs(loss, batches, train.labels, experiment.loss.name)


def check_mode(name: str, mode: Mode) -> None:
    """Refuses a loss that reads feature maps in mode frozen, which has pooled vectors only.

    Raises:
        ArgumentError: with the remedy.
    """
    if LOSSES[name].needs_feature_maps and mode == "frozen":
        raise ArgumentError(
            f"loss '{name}' reads feature maps, and mode frozen has pooled vectors only; use mode partial or finetune"
        )


def check_validation(split: Split) -> None:
    """Refuses validation images of which none has another of its class to be found, and test images without roles.

    Raises:
        DataError: with the remedy.
    """
    held = split.validation
    check_roles(held)
    check_roles(split.test)
    queries, gallery = held.queries(), held.gallery()
    in_gallery = np.bincount(held.labels[gallery], minlength=held.num_classes)
    matches = in_gallery[held.labels[queries]] - np.isin(queries, gallery)
    if not (matches > 0).any():
        lacks = "two images" if held.role is None else "a query and another image in the gallery"
        raise DataError(
            f"{held.name}: none of the {held.num_classes} validation classes has {lacks}, so no epoch can be "
            "chosen; give them more images, or hold out others with data.split=hold_out or another seed"
        )


def check_pairs(loss: MetricLoss, batches: Batches, labels: NDArray[np.int64], name: str) -> list[str]:
    """Counts the batches without two images of one class, from which a loss without proxies learns nothing.

    Returns:
        A warning if some are.

    Raises:
        ArgumentError: all are.
    """
    if loss.proxy_loss is not None:
        return []
    batches.set_epoch(1)
    rows = [list(batch) for batch in batches]
    pairless = sum(len(np.unique(labels[batch])) == len(batch) for batch in rows)
    found = f"{pairless} of {len(rows)} batches have no two images of one class; loss '{name}' learns nothing from them"
    if rows and pairless == len(rows):
        raise ArgumentError(f"{found}; set batch.sampler=balanced or a larger batch.size")
    return [f"{found}; set batch.sampler=balanced"] if pairless else []
