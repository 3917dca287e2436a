"""The training loop, readable from top to bottom; the same for the three modes.

An epoch is: set batch norm, walk through the batches at the schedule's rates, measure the validation classes,
keep the best, save. Everything random is a function of (seed, epoch), so a run that is resumed at the
start of an epoch gives the same numbers as one that was never interrupted.
"""

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from lookalike.config.schema import TrainSettings
from lookalike.errors import ArgumentError, NotFiniteError
from lookalike.losses import MetricLoss
from lookalike.models.batch_norm import freeze_batch_norm, set_batch_norm_momentum
from lookalike.optim.factory import Optimizers, build_optimizers
from lookalike.optim.schedules import lr_factor
from lookalike.training.failures import StepInfo, training_errors
from lookalike.training.inputs import Batches, Inputs
from lookalike.training.state import TrainingState
from lookalike.training.tensor_tree import clone_state
from lookalike.training.trainable import TrainablePart
from lookalike.utils.distributed import Processes, average_buffers, global_batch
from lookalike.utils.progress import Progress

Metrics = Mapping[str, float]


def train(
    trainable: TrainablePart,
    loss: MetricLoss,
    inputs: Inputs,
    batches: Batches,
    settings: TrainSettings,
    *,
    fabric: Fabric,
    seed: int,
    evaluate: Callable[[], Metrics] | None,
    state: TrainingState | None = None,
    on_epoch: Callable[[TrainingState], None] = lambda state: None,
    progress: Progress | None = None,
) -> TrainingState:
    """Trains the tail and the loss's proxies in place; ends with the weights of the best epoch.

    Args:
        evaluate: measures the validation classes with the present weights; epoch 0 is the untrained
            start. None trains for `settings.epochs` and keeps the last epoch.
        state: an earlier state to go on from.
        on_epoch: called with the state after each epoch, 0 included, to save and to log.

    Raises:
        TrainingError: embeddings or the loss are not finite, or memory does not suffice; the message names
            epoch, step and images.
    """
    progress = progress or Progress()
    epochs = settings.epochs or 0
    model, optimizers = trainable.embedder, build_optimizers(settings, trainable, loss, fabric)
    if state is None:
        state = TrainingState()
        _finish_epoch(
            state,
            0,
            {"loss": None, "lr_factor": 1.0, "seconds": 0.0},
            model,
            loss,
            optimizers,
            settings,
            evaluate,
        )
        on_epoch(state)
    else:
        model.load_state_dict(state.model)
        loss.load_state_dict(state.loss)
        optimizers.load_state_dict(state.optimizers)
    while state.epoch < epochs and not _is_over(state, settings):
        epoch, began = state.epoch + 1, time.monotonic()
        watched = state.values(settings.schedule.metric) if settings.schedule.name == "plateau" else []
        rate = partial(lr_factor, settings.schedule, epoch=epoch, epochs=epochs, metrics=watched)
        batches.set_epoch(epoch)
        inputs.set_epoch(epoch)
        if settings.warmup_forgets and _warms_up(settings, epoch - 1) and not _warms_up(settings, epoch):
            optimizers.reset_state([*model.parameters(), *loss.parameters()])
        with torch.random.fork_rng(), progress.phase(f"epoch {epoch} of {epochs}", len(batches)) as phase:
            torch.manual_seed(seed * 1_000_003 + epoch)
            _set_modes(trainable, loss, settings, warming=_warms_up(settings, epoch))
            total, steps = 0.0, 0
            rows = [list(batch) for batch in batches]
            for step, (batch, labels) in enumerate(inputs.batches(rows), start=1):
                factor = rate(done=(step - 0.5) / len(rows))
                optimizers.scale_rates(factor)
                with training_errors(StepInfo(epoch, step, factor, inputs, rows[step - 1]), settings):
                    value = float(_step(trainable, loss, batch, labels, fabric))
                    if not math.isfinite(value):
                        raise NotFiniteError("the loss is not finite")
                    if step % settings.accumulate == 0 or step == len(rows):
                        _update(model, loss, optimizers, settings)
                total, steps = total + value, steps + 1
                phase.note(f"loss {total / steps:.3f}")
                phase.advance()
        optimizers.catch_up()
        average_buffers(model)
        record = {
            "loss": total / max(steps, 1),
            "lr_factor": rate(done=0.5),
            "steps": steps,
            "seconds": time.monotonic() - began,
        }
        _finish_epoch(state, epoch, record, model, loss, optimizers, settings, evaluate)
        on_epoch(state)
    model.load_state_dict(state.best_model)
    model.eval()
    return state


def _warms_up(settings: TrainSettings, epoch: int) -> bool:
    first = settings.warmup_first
    return first <= epoch < first + (settings.warmup_epochs or 0)


def _set_modes(trainable: TrainablePart, loss: MetricLoss, settings: TrainSettings, *, warming: bool) -> None:
    """Train mode, with batch norm as set in every epoch, and the backbone at rest while warming up."""
    trainable.embedder.train()
    loss.train()
    for parameter in trainable.backbone_parameters():
        parameter.requires_grad_(not warming)
    if settings.batch_norm_momentum is not None:
        set_batch_norm_momentum(trainable.embedder, settings.batch_norm_momentum)
    if settings.batch_norm != "train":
        freeze_batch_norm(trainable.embedder, affine_trained=settings.batch_norm == "frozen" and not warming)


def _step(
    trainable: TrainablePart, loss: MetricLoss, batch: Tensor, labels: Tensor, fabric: Fabric
) -> Tensor:
    """Forward and backward; the loss itself is always computed in at least float32."""
    batch, labels = (x.to(fabric.device, non_blocking=True) for x in (batch, labels))
    value: Tensor  # of the global batch, the same in every process
    if loss.needs_feature_maps:
        with fabric.autocast():
            maps = trainable.feature_maps(batch)
            embeddings = trainable.embedder.project(trainable.embedder.pool(maps))
        if Processes.all().size > 1:
            raise ArgumentError("a loss of feature maps trains in one process; use --devices 1")
        value = loss(embeddings, labels, maps)
    else:
        with fabric.autocast():
            embeddings = trainable.embed(batch)
        embeddings, labels = global_batch(embeddings, labels, averaged=False)
        value = loss(embeddings, labels)
    fabric.backward(value)
    return value.detach()


def _update(model: nn.Module, loss: MetricLoss, optimizers: Optimizers, settings: TrainSettings) -> None:
    processes = Processes.all()
    if processes.size > 1:
        for parameter in model.parameters():  # the loss's gradients are whole in every process
            if parameter.grad is not None:
                processes.sum_(parameter.grad)
    optimizers.reset_state(loss.pop_reset_parameters())
    optimizers.step(settings)


def _finish_epoch(
    state: TrainingState,
    epoch: int,
    record: dict[str, Any],
    model: nn.Module,
    loss: MetricLoss,
    optimizers: Optimizers,
    settings: TrainSettings,
    evaluate: Callable[[], Metrics] | None,
) -> None:
    """Measures, keeps the best, and brings the state up to date."""
    validation = dict(evaluate()) if evaluate is not None else {}
    state.epoch = epoch
    state.history.append({"epoch": epoch, **record, "validation": validation})
    state.model, state.loss = clone_state(model.state_dict()), clone_state(loss.state_dict())
    state.optimizers = optimizers.state_dict()
    if evaluate is None or validation[settings.metric] > state.best_metric:
        state.best_epoch, state.best_model = epoch, state.model
        state.best_metric = validation.get(settings.metric, 0.0)


def _is_over(state: TrainingState, settings: TrainSettings) -> bool:
    return settings.patience is not None and state.epoch - state.best_epoch >= settings.patience
