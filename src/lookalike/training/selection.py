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
from lookalike.training.context import Job
from lookalike.training.evaluate_run import score
from lookalike.training.feeding import inputs_of
from lookalike.training.inputs import Inputs
from lookalike.training.loop import train
from lookalike.training.setup import batches_of, begin, run_whole, set_closed_form
from lookalike.training.state import TrainingState
from lookalike.training.summary import Outcome, choice_line, epoch_line
from lookalike.training.trainable import Tail

ONE_ERROR = 0.683
"""How much of a normal distribution lies within one standard error."""


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


def select(job: Job, tail: Tail) -> tuple[Embedder, Outcome]:
    """Trains on the training classes; the tail ends as what the validation classes choose.

    Returns:
        The start, and the outcome.
    """
    held, metric, embedder = job.parts.validation, job.experiment.train.metric, tail.embedder
    inputs, held_inputs = inputs_of(job, tail, job.parts.train), inputs_of(job, tail, held)
    loss = begin(job, tail, inputs, job.parts.train.num_classes)
    start = copy.deepcopy(embedder)

    def scored() -> tuple[RetrievalResult, dict[str, float]]:
        with job.timed("validation"):
            matrix = run_whole(job, tail, held_inputs, project=True).numpy()
            health = embedding_health(matrix, held.labels)
            if health.collapsed:
                job.progress.say(f"warning: {health.warning}")
            result = score(held, matrix)
            return result, _metrics(result) | {
                "effective_rank": health.effective_rank,
                "similarity_between_classes": health.between,
            }

    def measure() -> dict[str, float]:
        return scored()[1]

    def on_epoch(state: TrainingState) -> None:
        job.progress.say(epoch_line(state, metric))
        if job.leads and state.best_epoch == state.epoch:
            keep_model(job, embedder)

    settings = job.experiment.train
    schedule = settings.schedule
    state = _train(job, tail, loss, inputs, "select", measure, on_epoch, settings.epochs or 0, schedule)
    if isinstance(loss, HierarchicalProxyLoss) and job.leads:
        _save_tree(job, loss)
    candidates = {"start": state.history[0]["validation"]}
    if state.best_epoch > 0:
        candidates["trained"] = state.history[state.best_epoch]["validation"]
    gain = None
    if job.experiment.model.finish == "whitened":
        projection = copy.deepcopy(embedder.projection)
        plain, _ = scored()
        _finish(job, tail, inputs)
        finished, candidates["finished"] = scored()
        columns = plain.per_query[metric], finished.per_query[metric]
        gain = paired_difference(metric, *columns, plain.labels, confidence=ONE_ERROR).difference
    best = choose(candidates, metric, gain)
    if best != "finished" and "finished" in candidates:
        embedder.projection = projection
    job.progress.say(choice_line(best, state.best_epoch, candidates, metric, gain))
    recorded = drops(schedule, epochs=state.epoch, metrics=state.values(schedule.metric))
    return start, Outcome(best, state.best_epoch, state.epoch, candidates, gain, tuple(recorded))


def refit(job: Job, tail: Tail, outcome: Outcome) -> Embedder:
    """Trains from the start on all but the test classes, as long as was best; returns the start."""
    inputs = inputs_of(job, tail, job.parts.fit)
    loss = begin(job, tail, inputs, job.parts.fit.num_classes)
    start = copy.deepcopy(tail.embedder)
    job.progress.say(f"refit on all {job.parts.fit.num_classes} training classes")
    schedule = replayed(job.experiment.train.schedule, outcome.drops)
    _train(job, tail, loss, inputs, "refit", None, lambda state: None, outcome.epoch, schedule)
    if outcome.what == "finished":
        _finish(job, tail, inputs)
    return start


def _train(
    job: Job,
    tail: Tail,
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
        job.folder.save_state(stage, state, loss)
        if job.leads:
            job.folder.log({"stage": stage, **state.history[-1]})
        on_epoch(state)

    with job.timed(f"training ({stage})"):
        return train(
            tail,
            loss,
            inputs,
            batches_of(job, inputs.labels),
            job.experiment.train.model_copy(update={"epochs": epochs, "schedule": schedule}),
            fabric=job.fabric,
            seed=job.experiment.seed,
            evaluate=measure,
            state=job.folder.load_state(stage, loss),
            on_epoch=save,
            progress=job.progress,
        )


def _finish(job: Job, tail: Tail, inputs: Inputs) -> None:
    """Replaces the projection by the closed form on the trained features."""
    with job.timed("finish"):
        pooled = run_whole(job, tail, inputs, project=False)
        set_closed_form(job, tail.embedder, "whitened", pooled, inputs.labels)


def _metrics(result: RetrievalResult) -> dict[str, float]:
    return {key: value for key, value in result.to_dict().items() if isinstance(value, float)}


def _save_tree(job: Job, loss: HierarchicalProxyLoss) -> None:
    """Which classes were grouped, for programs and for people."""
    tree = loss.tree(job.parts.train.class_names)
    job.folder.write_json("tree.json", tree)


def keep_model(job: Job, embedder: Embedder) -> None:
    """Writes the model into the run folder."""
    save_model(job.folder.path, embedder, class_names=job.parts.fit.class_names)
