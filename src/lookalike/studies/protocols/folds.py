"""The Reality Check's protocol: settings found on four class folds, then ten reproductions of the best.

    search         each trial trains on three quarters of the training classes and is validated on the rest,
                   four times; its value is the mean of the four best validation map_at_r; the test classes
                   are not touched
    reproductions  each trains the four fold models with the best settings and another seed, and scores the
                   test classes twice: "separated", the mean of the four models' scores, and "concatenated",
                   one score of the four embeddings, each of unit length, joined

The two scores stand apart, since four models together are no longer one model. Source: Musgrave, Belongie and
Lim, "A Metric Learning Reality Check", ECCV 2020, as the stored records of powerful-benchmarker show it.
"""

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lookalike.config.experiment import Experiment
from lookalike.data.dataset import LabeledImages
from lookalike.data.splits import Split, class_folds, half_split
from lookalike.errors import TrainingError
from lookalike.studies.protocols.hyperparameter_search import search
from lookalike.studies.protocols.metrics import COSTS, measure
from lookalike.studies.protocols.search_spaces import ranges_of
from lookalike.studies.protocols.single_run import VALIDATION, training_half
from lookalike.studies.protocols.task import Score, Task, train_once

FOLDS = 4
JOINED = "concatenated_"


def folds(task: Task) -> Score:
    """One reproduction; the first to need it runs, or goes on with, the search that all share."""
    began = time.monotonic()
    split = fold_splits(task.table)
    found = search(
        task.shared,
        ranges_of(task.experiment.loss.name),
        lambda overrides, folder: validated(task, overrides, folder, split),
        trials=task.trials,
    )
    experiment = fold_settings(task.experiment).override(found["overrides"])
    runs = [
        train_once(task, experiment, part, folder=task.folder / f"fold-{number}")
        for number, part in enumerate(split)
    ]
    test = runs[0].test
    keys = tuple(key for key in task.metrics if key not in COSTS)
    single = [measure(test, run.final, keys, seed=experiment.seed) for run in runs]
    metrics = {key: float(np.mean([values[key] for values in single])) for key in keys}
    together = measure(test, joined([run.final for run in runs]), keys, seed=experiment.seed)
    metrics |= {f"{JOINED}{key}": value for key, value in together.items()}
    kept = ", ".join(sorted({run.result["selected"]["what"] for run in runs}))
    facts = {"overrides": found["overrides"], "validation_map_at_r": found["value"], "trials": task.trials}
    return Score(metrics, VALIDATION, kept, round(time.monotonic() - began, 2), facts=facts)


def validated(task: Task, overrides: list[str], folder: Path, split: tuple[Split, ...]) -> float:
    """Mean over the folds of the best validation map_at_r; 0 for settings with which training breaks down."""
    experiment = fold_settings(task.experiment).override([*overrides, "seed=0"])
    try:
        runs = [
            train_once(task, experiment, part, folder=folder / f"fold-{number}", score_test=False)
            for number, part in enumerate(split)
        ]
    except TrainingError as error:
        task.progress.say(f"trial {folder.name}: {error}")
        return 0.0
    return float(np.mean([run.result["validation"]["map_at_r"] for run in runs]))


def fold_settings(experiment: Experiment) -> Experiment:
    """The experiment with map_at_r choosing, whatever the row's paper chose by."""
    return experiment.override(["train.metric=map_at_r"])


def fold_splits(table: LabeledImages, folds: int = FOLDS) -> tuple[Split, ...]:
    """Four cuts of the training classes, all with the same test classes.

    The Reality Check tests on the second half of the classes, in their order, also where the data names
    another split; the two agree on CUB-200-2011 and Cars196.
    """
    fit, test = training_half(table) if table.role is not None else half_split(table)
    return tuple(
        Split(train, held, test, fit, f"fold {n}") for n, (train, held) in enumerate(class_folds(fit, folds))
    )


def joined(matrices: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Embeddings side by side, each made unit length first: (N, sum of widths)."""
    units = [matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12) for matrix in matrices]
    return np.concatenate(units, axis=1).astype(np.float32)
