"""The main job: labeled images become a trained, measured model in a run directory.

    split        train / validation / test classes                       (config.experiment.Experiment.split)
    set up       settings, processes, network, run directory             (setup, data_facts, run_dir)
    train        on the training classes, from a closed-form start       (stage, loop)
    select       the validation classes choose between the start, the best epoch and the whitened finish (selection)
    refit        optionally once more on all but the test classes, for the chosen number of epochs
    test         the test classes, once: the start and the chosen model  (final_test)
    save         model and result; whatever chose is written into it     (summary)

The chosen model is never worse on validation than the start.
"""

import os
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.config.experiment import Experiment
from lookalike.data.dataset import LabeledImages
from lookalike.data.load import load_images, reading
from lookalike.data.screen import describe_copies, find_test_copies
from lookalike.data.splits import Split
from lookalike.errors import ArgumentError
from lookalike.training.checks import check_run
from lookalike.training.context import RunContext, RunOptions
from lookalike.training.data_facts import check_same_data, data_facts, save_image_hashes
from lookalike.training.evaluate_run import score, score_in_run
from lookalike.training.final_test import embed_test_images
from lookalike.training.inputs import build_cache
from lookalike.training.launch import launch
from lookalike.training.loggers import check_loggers
from lookalike.training.minutes import WORTH_ESTIMATING, estimate_run, plan_experiment
from lookalike.training.run_dir import RunDir
from lookalike.training.selection import refit, select
from lookalike.training.setup import build_network, resolve_experiment, save_best_model
from lookalike.training.start_from import (
    SeenClasses,
    SeenTest,
    check_unseen,
    describe_start,
    save_seen,
    seen_before,
    seen_by,
    seen_warnings,
    split_after,
)
from lookalike.training.summary import build_result, describe_plan, describe_result
from lookalike.training.trainable import TrainablePart
from lookalike.utils.device import pick_device
from lookalike.utils.distributed import Processes
from lookalike.utils.environment import environment
from lookalike.utils.progress import Progress


@dataclass(frozen=True)
class FitResult:
    """A finished run in memory: the result as written to disk, and the test images for a report."""

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
    test_on_trained: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    split: Split | None = None,
    score_test: bool = True,
    minutes: float | None = None,
    options: RunOptions | None = None,
) -> FitResult:
    """Trains on `data`, measures, and leaves a run directory.

    Args:
        data: a table, or what `read` takes: a folder, a table file, an archive, a name.
        out: the run directory; new, or with `overwrite` an earlier run's, or with `resume` an interrupted one's.
        experiment: the settings; the defaults when None. Not with `resume`, which keeps the run's own.
        start_from: another run directory, whose model and proxies training starts from. Classes that it has seen
            are not held out for the test.
        test_on_trained: accept test classes that the run of `start_from` has seen; the result marks them.
        split: which classes train, validate and test; None: `Experiment.split` of the data. Where the validation
            images are test images, the result says that the test was used to select.
        score_test: False leaves the test classes alone, as a search over settings must.
        minutes: about how long the run may take on this machine; mode, input size and epochs that the experiment
            leaves open are planned from a measurement of a few seconds. None: the defaults.
        options: where the run computes, what it reports; no number depends on it.

    Raises:
        FileError: `out` cannot be used, or `data` is not the run's data.
        DataError: the data cannot be split, or holds an image that cannot be read.
        ArgumentError: a setting that cannot be used here.
        MissingExtraError: the package of a logger is not installed.
        TrainingError: the loss is not finite.
    """
    options = options or RunOptions()
    check_loggers(options.log_to)
    many_processes = options.devices > 1 or "TORCHELASTIC_RUN_ID" in os.environ
    if minutes is not None and (resume or many_processes):
        raise ArgumentError("minutes is for a new run in one process; drop it, or drop resume and devices")
    if resume and (overwrite or experiment is not None or start_from is not None):
        raise ArgumentError(
            "resume continues a run with its own settings; drop experiment, start_from and overwrite"
        )
    run_dir, progress, accelerator = RunDir(out), options.progress, pick_device(options.device).type
    if resume:
        experiment, (start_from, test_on_trained) = run_dir.experiment(), _earlier_start(run_dir)
    else:
        run_dir.check_free(overwrite=overwrite)
        start_from = Path(start_from).resolve() if start_from else None
    experiment = (experiment or Experiment()).check(accelerator)
    if start_from and not resume:
        experiment = experiment.with_network_of(RunDir(start_from).experiment())

    table = load_images(
        data, **reading(experiment.data), on_bad_file=experiment.data.on_bad_file, progress=progress
    )
    before = seen_before(run_dir) if resume else seen_by(RunDir(start_from)) if start_from else SeenClasses()
    split = split or split_after(experiment, table, before, test_on_trained=test_on_trained)
    facts = data_facts(table, split, start_from, test_on_trained=test_on_trained)
    seen = SeenTest()
    if start_from:
        seen = check_unseen(start_from, facts["source"], split, before, test_on_trained=test_on_trained)
    copies = find_test_copies(split) if score_test else {}
    if minutes is not None:
        experiment = plan_experiment(
            experiment, split, minutes=minutes, accelerator=accelerator, progress=progress
        )
    if not resume:
        experiment = resolve_experiment(
            experiment,
            split,
            accelerator=accelerator,
            measure=not many_processes and len(split.train) >= WORTH_ESTIMATING,
            progress=progress,
        )
    fabric = launch(accelerator, options.devices, experiment.train.precision)
    if Processes.all().rank > 0:
        progress = Progress()  # only the main process reports
    context = RunContext(
        experiment, split, run_dir, fabric, progress, start_from, log_to=tuple(options.log_to)
    )
    network = build_network(context)
    warnings = check_run(context, network.embedder)
    with run_dir.locked() if context.is_main_process else nullcontext():
        if context.is_main_process:
            _open_run(context, facts, before, resume=resume, overwrite=overwrite)
        context.processes.barrier(patient=True)
        progress.say(describe_plan(context))
        if start_from:
            progress.say(describe_start(start_from, split, before))
            warnings += seen_warnings(split, before, seen)
        for warning in warnings + ([describe_copies(copies)] if copies else []):
            progress.warn(warning)
        if not resume and minutes is None and (expected := estimate_run(context)):
            progress.say(expected)
        return _run(context, network, copies, seen, score_test=score_test)


def _earlier_start(run_dir: RunDir) -> tuple[Path | None, bool]:
    """What an interrupted run started from, and whether it accepts test classes that were trained on."""
    facts = run_dir.read_json("data.json")
    start_from = facts["start_from"]
    return Path(start_from) if start_from else None, facts.get("test_on_trained", False)


def _run(
    context: RunContext,
    network: TrainablePart,
    copies: Mapping[str, str],
    seen: SeenTest,
    *,
    score_test: bool,
) -> FitResult:
    """Trains, selects, refits, tests and saves."""
    cache = None if context.mode == "finetune" else build_cache(context, network, context.split.trainval)
    start, choice = select(context, network, cache)
    if context.experiment.train.refit and choice.what != "start":
        network = build_network(context)
        network.embedder.set_views(start.config.views)
        start = refit(context, network, cache, choice)
    embedder = network.embedder.eval()
    result = build_result(context, choice, embedder)
    if not score_test:
        _save(context, network, result)
        nothing = np.zeros((0, embedder.embedding_dim), dtype=np.float32)
        return FitResult(result, context.split.test.rows([]), nothing, nothing)

    vectors = embed_test_images(context, network, start, cache)
    with context.clock.phase("evaluation"):
        before, after = (score_in_run(context, context.split.test, matrix) for matrix in vectors)
    result |= {"test": after.to_dict(), "test_start": before.to_dict(), "seconds": context.clock.seconds()}
    if context.is_main_process:
        after.save(context.run_dir.path / "test_queries")
    if copies:
        without = _score_without(context.split.test, copies, vectors[1])
        result |= {"test_copies": {"images": len(copies), "copy_of": dict(copies), "test_without": without}}
    if seen.classes or seen.images:
        paths = seen.paths(context.split.test)
        without = _score_without(context.split.test, paths, vectors[1])
        result |= {
            "test_trained_on": {"classes": seen.classes, "images": len(paths), "test_without": without}
        }
    result["in_words"] = describe_result(context, result)
    _save(context, network, result)
    return FitResult(result, context.split.test, *vectors)


def _score_without(
    test: LabeledImages, paths: Collection[str], matrix: NDArray[np.float32]
) -> dict[str, Any] | None:
    """The scores of the chosen model without the test images at `paths`; None where nothing can be found."""
    kept = np.array([path not in paths for path in test.paths])
    rest = test.rows(kept)
    return score(rest, matrix[kept]).to_dict() if rest.class_counts().max(initial=0) > 1 else None


def _open_run(
    context: RunContext, facts: dict[str, Any], before: SeenClasses, *, resume: bool, overwrite: bool
) -> None:
    """Makes the run directory, or checks that the data is the run's."""
    run_dir = context.run_dir
    if not resume:
        run_dir.check_free(overwrite=overwrite)
        run_dir.create(context.experiment, facts, environment(str(context.fabric.device)))
        save_image_hashes(run_dir, context.split)
        save_seen(run_dir, context.split, before, refit=context.experiment.train.refit)
        return
    for change in check_same_data(run_dir, facts, context.split):
        context.progress.warn(f"the data changed since the run began: {change}")
    run_dir.write_json("data.json", facts)
    if (run_dir.path / "training_state" / "seconds.json").exists():
        context.clock.continue_from(run_dir.read_json("training_state/seconds.json"))


def _save(context: RunContext, network: TrainablePart, result: dict[str, Any]) -> None:
    if context.is_main_process:
        save_best_model(context, network.embedder)
        context.run_dir.write_json("result.json", result)
