"""The protocols that train once (or twice): held_out, the papers', and ProxyNCA++'s two stages.

| name | trains on | chooses the epoch by | tests on |
|---|---|---|---|
| held_out | training classes less 15 % | these 15 % | test, once |
| papers | first half of the classes | the test classes: "selected on test" | second half |
| two_stage | half of the training classes, then all | the other half of these | test, once |

The papers' half split is the data's own where it names a test split.
"""

import time

from lookalike.config.experiment import Experiment
from lookalike.data.dataset import LabeledImages
from lookalike.data.splits import ClassSplit, Split, half_split, named_split, two_stage_halves
from lookalike.studies.protocols.metrics import costs, measure, reset_peak_memory, retrievals
from lookalike.studies.protocols.task import Score, Task, train_once, training_curve
from lookalike.training.fit import FitResult
from lookalike.utils.device import pick_device

VALIDATION = "validation classes"
TEST = "test"


def held_out(task: Task) -> Score:
    """Validation classes from the training half choose; the test classes are scored once."""
    return score_split(task, None, VALIDATION)


def papers(task: Task) -> Score:
    """The test classes choose the epoch, as the released codes do; every result says so."""
    fit, test = training_half(task.table)
    return score_split(task, Split(fit, test, test, fit, "papers"), TEST)


def two_stage(task: Task) -> Score:
    """Stage 1 finds how long to train and when the rates fall; stage 2 repeats that on all training classes.

    The plateau schedule watches recall_at_1 of the validation half. `train.compat.replay_delay=1` repeats
    the drops an epoch late, as the authors' code does.
    """
    fit, test = training_half(task.table)
    train, validation = two_stage_halves(fit)
    split = Split(train, validation, test, fit, "two_stage")
    return score_split(task, split, VALIDATION, experiment=two_stage_settings(task.experiment))


def two_stage_settings(experiment: Experiment) -> Experiment:
    """The experiment with a plateau schedule on recall_at_1, early stopping by it, and a second stage."""
    settings = ["train.refit=true", "train.metric=recall_at_1"]
    if experiment.train.schedule.name != "plateau":
        settings += ["train.schedule.name=plateau", "train.schedule.patience=4", "train.schedule.gamma=0.1"]
    return experiment.override(settings)


def training_half(table: LabeledImages) -> ClassSplit:
    """The papers' training and test classes: the data's own split, or halves in the order of the classes."""
    return named_split(table) if "test" in table.splits() else half_split(table)


def score_split(
    task: Task, split: Split | None, selected_on: str, *, experiment: Experiment | None = None
) -> Score:
    """One training of a task, with every metric that the task asks for.

    Args:
        split: None: as the experiment splits the data.
        selected_on: what chooses the epoch, `VALIDATION` or `TEST`.
        experiment: the task's own when None.
    """
    experiment = experiment or task.experiment
    began = time.monotonic()
    reset_peak_memory()
    done = train_once(task, experiment, split)
    curve, selected = training_curve(task.folder / "run"), done.result["selected"]
    metrics = measure(
        done.test,
        done.final,
        task.metrics,
        similarity=task.similarity,
        seed=experiment.seed,
        device=pick_device(task.device),
    )
    metrics |= costs(task.metrics, curve, selected["epoch"])
    facts = {"epoch": selected["epoch"], "test_start": _plain(done, "test_start"), "drops": selected["drops"]}
    facts["split"] = done.result["data"]["split_digest"]
    if task.show_retrievals:
        facts["retrievals"] = retrievals(done.test, done.final)
    return Score(metrics, selected_on, selected["what"], round(time.monotonic() - began, 2), curve, facts)


def _plain(done: FitResult, part: str) -> dict[str, float]:
    return {key: done.result[part][key] for key in ("recall_at_1", "map_at_r")}
