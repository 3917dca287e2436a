"""Training, and what the validation classes choose: the best epoch, the finish, or the untrained start.

The whitened finish replaces the trained projection by the closed form on the trained features. A dozen validation
classes often cannot tell the two apart; `choose` says what happens then.
"""

import copy
from collections.abc import Callable

from lookalike.config.schema import ScheduleSettings
from lookalike.evaluation import Interval, RetrievalResult, embedding_health, paired_difference
from lookalike.losses import HierarchicalProxyLoss, MetricLoss
from lookalike.models.checkpoint import save_model
from lookalike.models.embedder import Embedder
from lookalike.optim.schedules import drops, replayed
from lookalike.training.context import RunContext
from lookalike.training.evaluate_run import score
from lookalike.training.feeding import build_inputs
from lookalike.training.inputs import Inputs
from lookalike.training.loop import train
from lookalike.training.setup import build_batch_sampler, embed_all, init_projection, init_projection_and_loss
from lookalike.training.state import TrainingState
from lookalike.training.summary import SelectionResult, choice_line, epoch_line
from lookalike.training.trainable import TrainablePart
from lookalike.training.views import ONE_ERROR, choose_views


def choose(candidates: dict[str, dict[str, float]], metric: str, finish_gain: Interval | None) -> str:
    """The finish, or what was trained where the finish is clearly worse; the start where that is no better.

    A dozen validation classes often cannot tell the finish from the projection under it, and the larger of two
    values is then a coin's toss (docs/results.md). So the finish stands unless its gain is below 0 by more than
    one standard error, which is what `finish_gain` spans.
    """
    order = ["trained"] if finish_gain is None or finish_gain.high < 0 else ["finished", "trained"]
    better = (
        name
        for name in order
        if name in candidates and candidates[name][metric] > candidates["start"][metric]
    )
    return next(better, "start")


def select(context: RunContext, trainable: TrainablePart) -> tuple[Embedder, SelectionResult]:
    """Trains on the training classes; the tail ends as what the validation classes choose.

    Returns:
        The start, and the outcome.
    """
    held, metric, embedder = context.split.validation, context.experiment.train.metric, trainable.embedder
    inputs, held_inputs = (
        build_inputs(context, trainable, context.split.train),
        build_inputs(context, trainable, held),
    )
    with context.timed("start"):
        pooled = choose_views(context, trainable, inputs, held_inputs)
    loss = init_projection_and_loss(context, trainable, inputs, pooled, context.split.train.num_classes)
    start = copy.deepcopy(embedder)

    def scored() -> tuple[RetrievalResult, dict[str, float]]:
        with context.timed("validation"):
            matrix = embed_all(context, trainable, held_inputs, project=True).numpy()
            health = embedding_health(matrix, held.labels)
            if health.collapsed:
                context.progress.say(f"warning: {health.warning}")
            result = score(held, matrix)
            return result, _metrics(result) | {
                "effective_rank": health.effective_rank,
                "similarity_between_classes": health.between,
            }

    def measure() -> dict[str, float]:
        return scored()[1]

    def on_epoch(state: TrainingState) -> None:
        context.progress.say(epoch_line(state, metric))
        if context.is_main_process and state.best_epoch == state.epoch:
            save_best_model(context, embedder)

    settings = context.experiment.train
    schedule = settings.schedule
    state = _train(
        context, trainable, loss, inputs, "select", measure, on_epoch, settings.epochs or 0, schedule
    )
    if isinstance(loss, HierarchicalProxyLoss) and context.is_main_process:
        _save_tree(context, loss)
    candidates = {"start": state.history[0]["validation"]}
    if state.best_epoch > 0:
        candidates["trained"] = state.history[state.best_epoch]["validation"]
    gain = None
    if context.experiment.model.finish == "whitened":
        projection = copy.deepcopy(embedder.projection)
        plain, _ = scored()
        _finish(context, trainable, inputs)
        finished, candidates["finished"] = scored()
        columns = plain.per_query[metric], finished.per_query[metric]
        gain = paired_difference(metric, *columns, plain.labels, confidence=ONE_ERROR).difference
    best = choose(candidates, metric, gain)
    if best != "finished" and "finished" in candidates:
        embedder.projection = projection
    context.progress.say(choice_line(best, state.best_epoch, candidates, metric, gain))
    recorded = drops(schedule, epochs=state.epoch, metrics=state.values(schedule.metric))
    return start, SelectionResult(best, state.best_epoch, state.epoch, candidates, gain, tuple(recorded))


def refit(context: RunContext, trainable: TrainablePart, outcome: SelectionResult) -> Embedder:
    """Trains from the start on all but the test classes, as long as was best; returns the start."""
    inputs = build_inputs(context, trainable, context.split.trainval)
    with context.timed("start"):
        pooled = embed_all(context, trainable, inputs, project=False)
    loss = init_projection_and_loss(context, trainable, inputs, pooled, context.split.trainval.num_classes)
    start = copy.deepcopy(trainable.embedder)
    context.progress.say(f"refit on all {context.split.trainval.num_classes} training classes")
    schedule = replayed(context.experiment.train.schedule, outcome.drops)
    _train(context, trainable, loss, inputs, "refit", None, lambda state: None, outcome.epoch, schedule)
    if outcome.what == "finished":
        _finish(context, trainable, inputs)
    return start


def _train(
    context: RunContext,
    trainable: TrainablePart,
    loss: MetricLoss,
    inputs: Inputs,
    stage: str,
    measure: Callable[[], dict[str, float]] | None,
    on_epoch: Callable[[TrainingState], None],
    epochs: int,
    schedule: ScheduleSettings,
) -> TrainingState:
    """`train`, going on from the stage's saved state if there is one, saving and logging every epoch."""

    def save(state: TrainingState) -> None:
        context.run_dir.save_state(stage, state, loss)
        if context.is_main_process:
            context.run_dir.log({"stage": stage, **state.history[-1]})
        on_epoch(state)

    with context.timed(f"training ({stage})"):
        return train(
            trainable,
            loss,
            inputs,
            build_batch_sampler(context, inputs.labels),
            context.experiment.train.model_copy(update={"epochs": epochs, "schedule": schedule}),
            fabric=context.fabric,
            seed=context.experiment.seed,
            evaluate=measure,
            state=context.run_dir.load_state(stage, loss),
            on_epoch=save,
            progress=context.progress,
        )


def _finish(context: RunContext, trainable: TrainablePart, inputs: Inputs) -> None:
    """Replaces the projection by the closed form on the trained features."""
    with context.timed("finish"):
        pooled = embed_all(context, trainable, inputs, project=False)
        init_projection(context, trainable.embedder, "whitened", pooled, inputs.labels)


def _metrics(result: RetrievalResult) -> dict[str, float]:
    return {key: value for key, value in result.to_dict().items() if isinstance(value, float)}


def _save_tree(context: RunContext, loss: HierarchicalProxyLoss) -> None:
    """Which classes were grouped, for programs and for people."""
    tree = loss.tree(context.split.train.class_names)
    context.run_dir.write_json("tree.json", tree)


def save_best_model(context: RunContext, embedder: Embedder) -> None:
    """Writes the model into the run directory."""
    save_model(context.run_dir.path, embedder, class_names=context.split.trainval.class_names)
