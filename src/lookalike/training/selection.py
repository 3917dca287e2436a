"""Trains and selects by the validation classes: the start, the best epoch or the whitened finish; then refits on all.

The whitened finish replaces the trained projection by the closed form on the trained features. A dozen validation
classes often cannot tell the two apart; `choose` says what happens then.
"""

import copy
from dataclasses import replace

import torch
from torch import Tensor

from lookalike.errors import ArgumentError
from lookalike.evaluation import Interval, RetrievalResult, gain_over_classes, paired_difference
from lookalike.losses import HierarchicalProxyLoss
from lookalike.models.embedder import Embedder
from lookalike.optim.schedules import drop_epochs, replay_schedule
from lookalike.training.choose_views import ONE_STANDARD_ERROR, choose_views
from lookalike.training.context import RunContext
from lookalike.training.embed_inputs import embed_all
from lookalike.training.feature_cache import FeatureCache
from lookalike.training.inputs import Inputs, build_inputs
from lookalike.training.projection import init_projection, init_projection_and_loss
from lookalike.training.stage import Stage, Validation
from lookalike.training.start_from import class_means, save_proxies
from lookalike.training.summary import SelectionResult, choice_line
from lookalike.training.trainable import TrainablePart

CLOSED_FORMS = ("whitened", "pca")
"""Starts that are good before any training."""


def choose(
    candidates: dict[str, dict[str, float]],
    metric: str,
    finish_gain: Interval | None,
    start_gains: dict[str, Interval] | None,
) -> str:
    """The finish, or what was trained where the finish is clearly worse; the start where that is not clearly better.

    A dozen validation classes often cannot tell the finish from the trained projection, and taking the larger of
    two values would be a coin toss. So the finish is kept unless its gain is below 0 by more than one standard
    error, which is what `finish_gain` spans. What replaces the start must have a gain whose 95 % interval lies above 0,
    so that two validation classes do not choose what was trained on a few hundred images.

    Args:
        candidates: the metrics of the start, and of what was trained and finished.
        finish_gain: of the finish over what was trained.
        start_gains: of the other candidates over the start; None where the start is a random projection, as in papers,
            which anything better replaces.
    """
    order = ["trained"] if finish_gain is None or finish_gain.high < 0 else ["finished", "trained"]
    better = (
        name
        for name in order
        if name in candidates
        and candidates[name][metric] > candidates["start"][metric]
        and (start_gains is None or start_gains[name].low > 0)
    )
    return next(better, "start")


def select(
    context: RunContext, trainable: TrainablePart, cache: FeatureCache | None
) -> tuple[Embedder, SelectionResult]:
    """Trains on the training classes; the network ends as what the validation classes choose.

    Returns:
        The start, and what was chosen.
    """
    settings, split, embedder = context.experiment.train, context.split, trainable.embedder
    inputs = build_inputs(context, trainable, split.train, cache)
    validation = Validation(context, trainable, build_inputs(context, trainable, split.validation, cache))
    with context.clock.phase("start"):
        pooled = choose_views(context, trainable, inputs, validation.inputs)
        loss = init_projection_and_loss(context, trainable, inputs, pooled)
    start = copy.deepcopy(embedder)
    state = Stage("select", context, trainable, loss, inputs, settings, validation).train()
    if isinstance(loss, HierarchicalProxyLoss) and context.is_main_process:
        context.run_dir.write_json("tree.json", loss.tree(split.train.class_names))

    metric, model = settings.metric, context.experiment.model
    finishes, start_is_good = model.finish == "whitened", model.start in CLOSED_FORMS
    candidates, gain, means = {"start": state.history[0]["validation"]}, None, None
    if state.best_epoch > 0:
        candidates["trained"] = state.history[state.best_epoch]["validation"]
    measured: dict[str, RetrievalResult] = {}
    if finishes or start_is_good:
        measured["trained"], _ = validation.measure()
    if finishes:
        projection = copy.deepcopy(embedder.projection)
        means = finish(context, trainable, inputs)
        if means is not None:
            measured["finished"], candidates["finished"] = validation.measure()
            first, second = (measured[name].per_query[metric] for name in ("trained", "finished"))
            gain = paired_difference(
                metric, first, second, measured["finished"].labels, confidence=ONE_STANDARD_ERROR
            ).difference
    better = {
        name: measured[name]
        for name in measured.keys() & candidates
        if candidates[name][metric] > candidates["start"][metric]
    }
    over_start = _gains_over(start, validation, better, metric) if start_is_good else None
    what = choose(candidates, metric, gain, over_start)
    epoch = 0 if what == "start" else state.best_epoch
    if what == "start" and state.best_epoch > 0:
        embedder.load_state_dict(start.state_dict())
        means = _class_means(context, embedder, pooled, inputs)
    elif what != "finished" and "finished" in candidates:
        embedder.projection, means = projection, None
    if means is not None:
        save_proxies(context, split.train.class_names, means, per_class=1)
    context.progress.say(choice_line(what, epoch, candidates, metric, gain, epochs=state.epoch))
    recorded = drop_epochs(settings.schedule, epochs=state.epoch, metrics=state.values(metric))
    return start, SelectionResult(what, epoch, state.epoch, candidates, gain, tuple(recorded))


def _gains_over(
    start: Embedder, validation: Validation, measured: dict[str, RetrievalResult], metric: str
) -> dict[str, Interval]:
    """What each measured candidate gains over the start, class by class, with a 95 % interval."""
    if not measured:
        return {}
    of_start = replace(validation, trainable=replace(validation.trainable, embedder=start), collapsed=[True])
    before, _ = of_start.measure()  # a collapse was said in epoch 0
    return {
        name: gain_over_classes(
            before.per_query[metric], result.per_query[metric], before.labels, confidence=0.95
        )
        for name, result in measured.items()
    }


def refit(
    context: RunContext, trainable: TrainablePart, cache: FeatureCache | None, choice: SelectionResult
) -> Embedder:
    """Trains from the start on all but the test classes, for as many epochs as were best; returns the start."""
    trainval, settings = context.split.trainval, context.experiment.train
    inputs = build_inputs(context, trainable, trainval, cache)
    with context.clock.phase("start"):
        pooled = embed_all(context, trainable, inputs, project=False)
        loss = init_projection_and_loss(context, trainable, inputs, pooled)
    start = copy.deepcopy(trainable.embedder)
    context.progress.say(f"refit on all {trainval.num_classes} training classes")
    settings = settings.model_copy(
        update={"epochs": choice.epoch, "schedule": replay_schedule(settings, choice.drops)}
    )
    Stage("refit", context, trainable, loss, inputs, settings, None).train()
    if choice.what == "finished":
        means = finish(context, trainable, inputs)
        if means is not None:
            save_proxies(context, trainval.class_names, means, per_class=1)
    return start


def finish(context: RunContext, trainable: TrainablePart, inputs: Inputs) -> Tensor | None:
    """Replaces the projection by the closed form on the trained features.

    Returns:
        The means (C, D) of the classes' unit embeddings, which stand for proxies; None where the closed form does not
        exist, with a warning.
    """
    with context.clock.phase("finish"):
        pooled = embed_all(context, trainable, inputs, project=False)
        try:
            init_projection(context, trainable.embedder, "whitened", pooled, inputs.labels)
        except ArgumentError as error:
            context.progress.warn(f"model.finish=whitened is not possible here: {error}")
            return None
        return _class_means(context, trainable.embedder, pooled, inputs)


def _class_means(context: RunContext, embedder: Embedder, pooled: Tensor, inputs: Inputs) -> Tensor:
    with torch.inference_mode():
        embeddings = embedder.project(pooled.to(context.fabric.device)).cpu()
        return class_means(embeddings, inputs.labels, inputs.table.num_classes)
