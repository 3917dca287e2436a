"""The main job: a table of labeled pictures becomes a trained, honestly measured model in a run folder.

    table -> train / validation / test classes            (experiment.Experiment.cut)
    network at its closed-form start                       (models.whitening)
    training on the training classes; validation classes choose the best epoch, refuse the whitened finish
    where it is clearly worse, and keep the start where nothing beats it      (train.train, _select)
    optionally once more on all but the test classes, for the chosen number of epochs (`train.refit`)
    test classes, once: the start and the chosen model     (evaluation.evaluate)

Whatever chose is written into the result. The chosen model is never worse on validation than the start.
"""

import copy
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from torch import Tensor

from lookalike.account import Outcome, choice_line, choose, data_facts, epoch_line, plan, result_of
from lookalike.checks import check_at_least
from lookalike.data.images import picture_size
from lookalike.data.readers import read
from lookalike.data.splits import Parts
from lookalike.data.table import LabeledImages
from lookalike.distributed import Processes
from lookalike.embedding import embed_with, pick_device
from lookalike.errors import FileError
from lookalike.evaluation import RetrievalResult, embedding_health, paired_difference
from lookalike.experiment import Experiment
from lookalike.files import write_atomically
from lookalike.inputs import Inputs, Tail
from lookalike.job import (
    Job,
    batches_of,
    begin,
    build_network,
    cached_view,
    inputs_of,
    run_whole,
    set_closed_form,
)
from lookalike.losses import HierarchicalProxyLoss, MetricLoss, tree_page
from lookalike.models.backbones import describe
from lookalike.models.checkpoint import save_model
from lookalike.models.embedder import Embedder
from lookalike.models.inference import for_inference
from lookalike.progress import Progress
from lookalike.runs import RunFolder, environment
from lookalike.schedules import drops, replayed
from lookalike.scoring import score
from lookalike.settings import ScheduleSettings
from lookalike.train import TrainingState, train

ONE_ERROR = 0.683
"""How much of a normal distribution lies within one standard error."""


@dataclass(frozen=True)
class FitResult:
    """A finished run in memory: the result as written to disk, and the test pictures for a report."""

    result: dict[str, Any]
    test: LabeledImages
    start: NDArray[np.float32]
    final: NDArray[np.float32]


def fit(
    data: LabeledImages | str | Path,
    out: Path | str,
    experiment: Experiment | None = None,
    *,
    start_from: Path | str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    parts: Parts | None = None,
    score_test: bool = True,
    device: str = "auto",
    devices: int = 1,
    progress: Progress | None = None,
) -> FitResult:
    """Trains on `data`, measures, and leaves a run folder.

    Args:
        data: a table, or what `read` takes: a folder, a table file, an archive, a name.
        out: the run folder; new, or with `overwrite` an earlier run's, or with `resume` an interrupted one's.
        experiment: the settings; not with `resume`, which keeps the run's own.
        start_from: another run's folder, whose model training goes on from.
        parts: which classes train, validate and test; None: `Experiment.cut` of the data. Where the validation
            pictures are test pictures, the result says that the test was used to select.
        score_test: False leaves the test classes alone, as a search over settings must.
        device: "auto", "cpu", "cuda" or "mps".
        devices: processes that train together, each with its share of every batch; the numbers are those of
            one process. Under `torchrun` its processes are used.

    Raises:
        FileError: `out` cannot be used, or `data` is not the run's data.
        DataError: the data cannot be split, or holds a picture that cannot be read.
        TrainingError: the loss is not finite.
    """
    began, folder, progress = time.monotonic(), RunFolder(out), progress or Progress()
    table = data if isinstance(data, LabeledImages) else read(data)
    accelerator = pick_device(device).type
    if resume:
        experiment = folder.experiment()
        start_from = folder.read_json("data.json")["start_from"]
    experiment = (experiment or Experiment()).check()
    if start_from and not resume:
        experiment = experiment.with_network_of(RunFolder(start_from).experiment())
    parts = parts or experiment.cut(table)
    if not resume:
        experiment = _resolved(experiment, parts, gpu=accelerator != "cpu")
    fabric = _launched(accelerator, devices, experiment.train.precision)
    if Processes.all().rank > 0:
        progress = Progress()  # one process speaks for all
    job = Job(experiment, parts, folder, fabric, progress, Path(start_from) if start_from else None)
    facts = data_facts(data, table, parts, start_from)
    if job.start_from is not None:
        _refuse_other_data(RunFolder(job.start_from), facts, "start_from")
    if resume:
        _refuse_other_data(folder, facts, "resume")
    elif job.leads:
        folder.create(overwrite=overwrite)
        folder.write_json("data.json", facts)
        folder.write_json("environment.json", environment(str(fabric.device)))
        experiment.save(folder.path / "experiment.yaml")
    fabric.barrier()
    job.progress.say(plan(job))

    tail = build_network(job)
    start, outcome = _select(job, tail)
    if experiment.train.refit and outcome.what != "start":
        tail = build_network(job)
        start = _refit(job, tail, outcome)
    final = tail.embedder.eval()
    if not score_test:
        result = result_of(job, outcome, final)
        _save(job, final, result)
        nothing = np.zeros((0, final.embedding_dim), dtype=np.float32)
        return FitResult(result, parts.test.rows([]), nothing, nothing)
    vectors = _embed_test(job, tail, start)
    with job.timed("evaluation"):
        before, after = (score(parts.test, matrix) for matrix in vectors)
    job.seconds["total"] = round(time.monotonic() - began, 2)
    result = result_of(job, outcome, final) | {"test": after.to_dict(), "test_start": before.to_dict()}
    _save(job, final, result)
    if job.leads:
        after.save(folder.path / "test_queries")
    return FitResult(result, parts.test, *vectors)


def _launched(accelerator: str, devices: int, precision: Any) -> Fabric:
    """A Fabric whose processes run: one, `devices`, or those that torchrun has started."""
    check_at_least("devices", devices, 1)
    started = int(os.environ.get("WORLD_SIZE", 1)) if "TORCHELASTIC_RUN_ID" in os.environ else 1
    here = int(os.environ["LOCAL_WORLD_SIZE"]) if started > 1 else devices
    many = max(started, devices) > 1
    fabric = Fabric(
        accelerator=accelerator,
        devices=here,
        num_nodes=max(1, started // here),
        strategy="ddp" if many else "auto",
        precision=precision,
    )
    if many:
        fabric.launch()
    return fabric


def _resolved(experiment: Experiment, parts: Parts, *, gpu: bool) -> Experiment:
    """The experiment with every None filled from the device and from a sample of the pictures."""
    table = parts.fit
    sample = np.linspace(0, len(table) - 1, num=min(len(table), 50)).astype(int)
    return experiment.resolve(
        gpu=gpu,
        picture_size=int(np.median([min(picture_size(table.file(row))) for row in sample])),
        backbone_size=describe(experiment.model.backbone).preprocessing.size,
        pictures=len(parts.train),
    )


def _refuse_other_data(folder: RunFolder, facts: dict[str, Any], purpose: str) -> None:
    """A run goes on only with its own data and split; otherwise test classes could have been trained on."""
    earlier = folder.read_json("data.json")
    for key, what in (("digest", "data"), ("split_digest", "split into classes")):
        if earlier[key] != facts[key]:
            raise FileError(
                f"{purpose}: the run '{folder.path}' was made with another {what} ({earlier['name']}); "
                "going on would mix training and test classes; use its data, seed and shares, or train anew"
            )


def _select(job: Job, tail: Tail) -> tuple[Embedder, Outcome]:
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
            _save_model(job, embedder)

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
        projection, (plain, _) = copy.deepcopy(embedder.projection), scored()
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


def _refit(job: Job, tail: Tail, outcome: Outcome) -> Embedder:
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


def _embed_test(job: Job, tail: Tail, start: Embedder) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Embeddings of the test pictures by the start and by the chosen model, in one pass over the pictures."""
    test, workers = job.parts.test, job.experiment.data.workers
    share = test.rows(range(*job.processes.share(len(test))))
    with job.timed("test"):
        if job.mode == "frozen":
            pooled = torch.from_numpy(np.array(cached_view(job, tail, test)(0))).to(job.fabric.device)
            with torch.inference_mode():
                first, second = (model.project(pooled).cpu().numpy() for model in (start, tail.embedder))
            return first, second
        fast = [for_inference(model) for model in (start, tail.embedder)]
        if job.mode == "partial":
            heads = [Tail(model, job.mode, job.cut) for model in fast]
            stem = fast[0].stem_until(job.cut)  # the same in both

            def both(images: Tensor) -> list[Tensor]:
                maps = stem(images)
                return [head.embed(maps) for head in heads]
        else:

            def both(images: Tensor) -> list[Tensor]:
                return [model(images) for model in fast]

        first, second = embed_with(
            both,
            tail.embedder.preprocessing,
            share,
            workers=workers,
            device=job.fabric.device,
            progress=job.progress,
            phase="test pictures",
        )
        return _gathered(job, first), _gathered(job, second)


def _gathered(job: Job, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows of all processes, which embed each picture once between them."""
    return job.processes.gather(torch.from_numpy(matrix).to(job.fabric.device)).cpu().numpy()


def _metrics(result: RetrievalResult) -> dict[str, float]:
    return {key: value for key, value in result.to_dict().items() if isinstance(value, float)}


def _save(job: Job, embedder: Embedder, result: dict[str, Any]) -> None:
    if job.leads:
        _save_model(job, embedder)
        job.folder.write_json("result.json", result)


def _save_tree(job: Job, loss: HierarchicalProxyLoss) -> None:
    """Which classes were grouped, for programs and for people."""
    tree = loss.tree(job.parts.train.class_names)
    job.folder.write_json("tree.json", tree)
    write_atomically(job.folder.path / "tree.html", lambda file: file.write_text(tree_page(tree)))


def _save_model(job: Job, embedder: Embedder) -> None:
    save_model(job.folder.path, embedder, class_names=job.parts.fit.class_names)
