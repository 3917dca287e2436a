"""Learning-rate schedules as a pure function of the progress and of the validation metrics so far.

Nothing here has state: a resumed run asks with the same history and gets the same factor. Epochs count
from 1; epoch e uses the factor that follows from the metrics of epochs 1..e-1. `cosine` and `linear` fall with
every step, to 0 at the end of the last epoch; with p the share of all steps that are done, they are

cosine    (1 + cos(pi p)) / 2
linear    1 - p
          both times p / warmup while p < warmup

The others keep one factor for a whole epoch:

constant  1
step      gamma ** (drops so far): one after each `every` epochs, or after each of `milestones`
          (Proxy-Anchor, ProxyGML, SoftTriple, NormSoftmax)
plateau   gamma ** (number of times that the metric did not rise for more than `patience` epochs) (ProxyNCA++, stage 1)
"""

import math
from collections.abc import Sequence

from lookalike.config.schema import ScheduleSettings, TrainSettings


def lr_factor(
    schedule: ScheduleSettings, *, epoch: int, epochs: int, metrics: Sequence[float], done: float = 0.0
) -> float:
    """The factor on every learning rate in `epoch` (from 1) of `epochs`.

    Args:
        metrics: the watched validation metric (higher is better) of epochs 1..epoch-1.
        done: the share of the epoch's steps that are done, 0 to 1; the middle of a step stands for it.
    """
    if schedule.name in ("cosine", "linear"):
        progress = (epoch - 1 + done) / epochs
        rising = min(1.0, progress / schedule.warmup) if schedule.warmup else 1.0
        falling = (1 + math.cos(math.pi * progress)) / 2 if schedule.name == "cosine" else 1 - progress
        return rising * falling
    return schedule.gamma ** len(
        [drop for drop in drop_epochs(schedule, epochs=epochs, metrics=metrics) if drop < epoch]
    )


def drop_epochs(schedule: ScheduleSettings, *, epochs: int, metrics: Sequence[float]) -> list[int]:
    """The epochs after which the rate fell, so that a plateau run can be replayed on other data."""
    if schedule.name == "plateau":
        return _plateaus(metrics, schedule.patience)
    if schedule.name == "step":
        return list(schedule.milestones) or list(range(schedule.every, epochs + 1, schedule.every))
    return []


def replay_schedule(settings: TrainSettings, recorded: Sequence[int]) -> ScheduleSettings:
    """The schedule of a refit: a plateau schedule as the drops it made in an earlier run, any other as it is.

    Data without validation classes gives no metric to watch. The authors of ProxyNCA++ repeat each drop an epoch
    late, which is `compat.replay_delay` 1.
    """
    schedule = settings.schedule
    if schedule.name != "plateau":
        return schedule
    if not recorded:
        return schedule.model_copy(update={"name": "constant"})
    milestones = tuple(drop + settings.compat.replay_delay for drop in recorded)
    return schedule.model_copy(update={"name": "step", "milestones": milestones})


def _plateaus(metrics: Sequence[float], patience: int) -> list[int]:
    """Epochs at whose end the metric had not risen for more than `patience` epochs."""
    found, best, resting = [], -math.inf, 0
    for epoch, value in enumerate(metrics, start=1):
        if value > best:
            best, resting = value, 0
        else:
            resting += 1
        if resting > patience:
            found.append(epoch)
            resting = 0
    return found
