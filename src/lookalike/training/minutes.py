"""Estimates how long a run takes on this machine, and plans settings for a number of minutes."""

from dataclasses import replace

import torch

from lookalike.config.defaults import default_epochs, default_mode
from lookalike.config.experiment import Experiment
from lookalike.data.splits import Split
from lookalike.models.backbones import describe
from lookalike.training.budget import (
    Candidate,
    Counts,
    Plan,
    candidates,
    estimate,
    most_epochs,
    plan_run,
)
from lookalike.training.choose_precision import choose_precision
from lookalike.training.context import RunContext
from lookalike.training.costs import measure_costs
from lookalike.training.setup import median_short_side
from lookalike.utils.progress import Progress
from lookalike.utils.validation import check_positive

WORTH_ESTIMATING = 1_000
"""Runs of fewer images are short, and not measured first."""


def estimate_run(context: RunContext) -> str:
    """How long the run will take on this machine, in words; empty for few images and for several processes."""
    split, experiment = context.split, context.experiment
    size, epochs = experiment.data.image_size, experiment.train.epochs
    counts = _counts(split)
    if counts.train < WORTH_ESTIMATING or context.processes.size > 1 or size is None or epochs is None:
        return ""
    patch = describe(experiment.model.backbone).patch
    costs = measure_costs(
        experiment, context.mode, split.train, (_half(size, patch), size), context.fabric.device
    )
    chosen = Candidate(context.mode, size, epochs)
    plan = Plan(chosen, estimate(chosen, costs, counts, views=_views(experiment)))
    return f"{duration(plan)} on this machine; --minutes N plans for another time"


def plan_experiment(
    experiment: Experiment, split: Split, *, minutes: float, accelerator: str, progress: Progress
) -> Experiment:
    """`experiment` with mode, input size and epochs set so that the run takes about `minutes`.

    Settings that somebody chose stay; the plan and what twice the time would change are printed.

    Raises:
        ArgumentError: minutes that are not above 0.
    """
    check_positive("minutes", minutes)
    mode = experiment.train.mode or default_mode(gpu=accelerator != "cpu")
    facts, table = describe(experiment.model.backbone), split.trainval
    epochs = default_epochs(mode, images=len(split.train), batch=experiment.batch.images)
    options = allowed(
        candidates(
            mode,
            epochs=epochs,
            backbone_size=facts.preprocessing.size,
            short_side=median_short_side(table),
            patch=facts.patch,
        ),
        experiment,
    )
    largest = max(option.image_size for option in options)
    precisions = choose_precision(
        experiment, mode=mode, size=largest, accelerator=accelerator, progress=progress
    )
    experiment = experiment.override(precisions)
    costs = measure_costs(
        experiment, mode, table, (_half(largest, facts.patch), largest), torch.device(accelerator)
    )
    counts = _counts(split)
    views = _views(experiment)
    most = most_epochs(mode, epochs) if experiment.train.epochs is None else 0
    plan, doubled = (
        plan_run(options, costs, counts, minutes=by * minutes, most=most, views=views) for by in (1, 2)
    )
    training = [option for option in options if option.mode != "frozen"]
    quickest = plan_run(training, costs, counts, minutes=0, views=views).minutes if training else None
    progress.say(plan_lines(plan, doubled, minutes=minutes, to_train=quickest))
    chosen = plan.settings
    return experiment.override(
        [
            f"train.mode={chosen.mode}",
            f"train.epochs={chosen.epochs}",
            f"data.image_size={chosen.image_size}",
        ]
    )


def allowed(options: list[Candidate], experiment: Experiment) -> list[Candidate]:
    """The candidates with what the experiment sets in place of what it leaves open; equal ones once."""
    train, size = experiment.train, experiment.data.image_size
    if train.mode is not None:
        options = [option for option in options if option.mode == train.mode]
    if train.epochs is not None:
        untrained = [option for option in options if option.mode == "frozen"] if train.epochs == 0 else []
        options = [replace(option, epochs=train.epochs) for option in untrained or options]
    if size is not None:
        options = [replace(option, image_size=size) for option in options]
    return list(dict.fromkeys(options))


def plan_lines(plan: Plan, doubled: Plan, *, minutes: float, to_train: float | None = None) -> str:
    """The plan for people: settings, minutes of each phase, and what twice the time would change.

    Args:
        to_train: minutes of the quickest settings that train more than the projection.
    """
    lines = [f"plan for {minutes:g} minutes: {_in_words(plan.settings)}; {duration(plan)}"]
    if plan.minutes > minutes:
        lines.append(
            f"even the quickest settings take about {plan.minutes:.1f} minutes here; give more, or fewer images"
        )
    if doubled.settings == plan.settings:
        lines.append("twice the time would change nothing")
    else:
        lines.append(f"twice the time: {_in_words(doubled.settings)}; about {doubled.minutes:.1f} minutes")
    if to_train is not None and doubled.settings.mode == "frozen":
        lines.append(f"the quickest settings that train the network too take about {to_train:.1f} minutes")
    return "\n".join(lines)


def duration(plan: Plan) -> str:
    """The estimated minutes in all and of each phase."""
    phases = ", ".join(f"{phase} {seconds / 60:.1f}" for phase, seconds in plan.seconds.items())
    return f"about {plan.minutes:.1f} minutes ({phases})"


def _in_words(settings: Candidate) -> str:
    what = f"mode {settings.mode} at {settings.image_size} px"
    return f"{what}, {settings.epochs} epochs" if settings.epochs else f"{what}, nothing trained"


def _half(size: int, patch: int) -> int:
    """About half of a side, in whole patches, to measure how costs grow with the size."""
    return max(patch, round(size / 2 / patch) * patch) if size > patch else 2 * patch


def _counts(split: Split) -> Counts:
    return Counts(len(split.train), len(split.validation), len(split.test))


def _views(experiment: Experiment) -> int:
    """How many views an embedding may average."""
    return experiment.model.views or (2 if experiment.data.flip else 1)
