"""The training loop, readable from top to bottom; the same for the three modes.

An epoch: set batch norm, go through the batches at the schedule's rates, measure the validation classes, keep the
best, save. Everything random is a function of (seed, epoch), so a run that is resumed at the start of an epoch
gives the same numbers as one that was never interrupted.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from lightning_fabric import Fabric

from lookalike.config.schema import TrainSettings
from lookalike.errors import NotFiniteError
from lookalike.losses import MetricLoss
from lookalike.optim.factory import build_optimizers
from lookalike.optim.schedules import lr_factor
from lookalike.training.failures import StepInfo, training_errors
from lookalike.training.inputs import Batches, Inputs
from lookalike.training.learner import Learner
from lookalike.training.state import TrainingState
from lookalike.training.step_log import StepLog
from lookalike.training.trainable import TrainablePart
from lookalike.utils.device import keep_random_state
from lookalike.utils.distributed import Processes, broadcast
from lookalike.utils.progress import Phase, Progress

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
    log: StepLog | None = None,
) -> TrainingState:
    """Trains the network's part and the loss's proxies in place; ends with the weights of the best epoch.

    Args:
        evaluate: measures the validation classes with the present weights; epoch 0 is the untrained
            start. None trains for `settings.epochs` and keeps the last epoch.
        state: an earlier state to continue from.
        on_epoch: called with the state after each epoch, 0 included, to save and to log.
        log: takes the numbers of each step.

    Raises:
        TrainingError: embeddings or the loss are not finite, or memory does not suffice; the message names
            epoch, step and images.
    """
    progress, epochs = progress or Progress(), settings.epochs or 0
    optimizers = build_optimizers(settings, trainable, loss, fabric)
    learner = Learner(trainable, loss, optimizers, settings, fabric, log or StepLog())
    broadcast(trainable.embedder)
    learner.share_proxies()
    if state is None:
        state = TrainingState()
        start = {"epoch": 0, "loss": None, "lr_factor": 1.0, "seconds": 0.0}
        _end_epoch(state, learner, start, evaluate)
        on_epoch(state)
    else:
        learner.load(state)
    while state.epoch < epochs and not _is_over(state, settings):
        epoch, began = state.epoch + 1, time.monotonic()
        watched = state.values(settings.metric) if settings.schedule.name == "plateau" else []
        rate = partial(lr_factor, settings.schedule, epoch=epoch, epochs=epochs, metrics=watched)
        batches.set_epoch(epoch)
        inputs.prepare(epoch)
        with (
            _seeded(fabric, seed, epoch),
            progress.phase(f"epoch {epoch} of {epochs}", len(batches)) as phase,
        ):
            learner.begin_epoch(epoch)
            mean_loss, steps = _train_epoch(learner, inputs, batches, epoch, rate, phase)
        learner.end_epoch()
        if skipped := optimizers.pop_skipped():
            progress.warn(
                f"epoch {epoch}: {skipped} steps were skipped, since gradients overflowed 16-bit numbers; a few at the "
                "start are usual, else lower the learning rates or set train.precision=bf16-mixed"
            )
        record = {
            "epoch": epoch,
            "loss": mean_loss,
            "lr_factor": rate(done=0.5),
            "steps": steps,
            **({"skipped_steps": skipped} if skipped else {}),
            "seconds": time.monotonic() - began,
        }
        _end_epoch(state, learner, record, evaluate)
        on_epoch(state)
    trainable.embedder.load_state_dict(state.best_model)
    trainable.embedder.eval()
    return state


def _train_epoch(
    learner: Learner, inputs: Inputs, batches: Batches, epoch: int, rate: Callable[..., float], phase: Phase
) -> tuple[float, int]:
    """Goes through the batches; returns the mean loss and the number of batches."""
    rows, every, total = [list(batch) for batch in batches], learner.settings.accumulate, 0.0
    learner.log.begin_epoch()
    for step, (batch, labels) in enumerate(inputs.batches(rows), start=1):
        group_end = min(-(-step // every) * every, len(rows))
        accumulated = group_end - (step - 1) // every * every
        factor = rate(done=(step - 0.5) / len(rows))
        learner.optimizers.scale_rates(factor)
        where = StepInfo(epoch, step, factor, inputs, rows[step - 1])
        with training_errors(where, learner.settings):
            value = learner.backward(batch, labels, accumulated=accumulated)
            if not math.isfinite(value):
                raise NotFiniteError("the loss is not finite")
            if step == group_end:
                learner.step()
                images = sum(map(len, rows[step - accumulated : step])) * Processes.all().size
                learner.log.end_step(learner.optimizers, value, images, device=learner.fabric.device)
        total += value
        phase.note(f"loss {total / step:.3f}")
        phase.advance()
    return total / max(len(rows), 1), len(rows)


def _end_epoch(
    state: TrainingState,
    learner: Learner,
    record: dict[str, Any],
    evaluate: Callable[[], Metrics] | None,
) -> None:
    """Measures, brings the state up to date, and keeps the best epoch."""
    validation = {} if evaluate is None else dict(evaluate())
    state.epoch = record["epoch"]
    state.history.append({**record, "validation": validation})
    learner.save(state)
    learner.log.end_epoch(state.history[-1])
    metric = learner.settings.metric
    if evaluate is None or validation[metric] > state.best_metric:
        state.best_epoch, state.best_model = state.epoch, state.model
        state.best_metric = validation.get(metric, 0.0)


@contextmanager
def _seeded(fabric: Fabric, seed: int, epoch: int) -> Iterator[None]:
    """Torch's random state set from (seed, epoch), and afterwards as it was."""
    with keep_random_state(fabric.device):
        torch.manual_seed(seed * 1_000_003 + epoch)
        yield


def _is_over(state: TrainingState, settings: TrainSettings) -> bool:
    return settings.patience is not None and state.epoch - state.best_epoch >= settings.patience
