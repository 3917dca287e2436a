"""The protocol of the Reality Check, and HPL's second: settings found on four class folds.

    search         each trial trains on three quarters of the training classes and is validated on the rest,
                   four times; its value is the mean of the four best validation map_at_r; the test classes
                   are not touched
    reproductions  each trains the four fold models with the best settings and another seed, and scores the
                   test classes twice: "separated", the mean of the four models' scores, and "concatenated",
                   one score of the four embeddings, each of unit length, joined

The two scores stand apart, since four models together are no longer one model. Optimizer, batch, backbone and
number of trials are the row's own. Source: Musgrave, Belongie and Lim, "A Metric Learning Reality Check", ECCV
2020, as the stored records of powerful-benchmarker show it.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.config.experiment import Experiment
from lookalike.config.schema import TrainSettings
from lookalike.data.dataset import LabeledImages
from lookalike.data.splits import Split, class_folds, half_split
from lookalike.studies.changes import combined
from lookalike.studies.metric_keys import COSTS
from lookalike.studies.protocols.hyperparameter_search import search
from lookalike.studies.protocols.metrics import measure
from lookalike.studies.protocols.search_spaces import search_space, with_values
from lookalike.studies.protocols.single_run import VALIDATION, training_half
from lookalike.studies.protocols.task import Score, Task, train_once
from lookalike.utils.device import pick_device

FOLDS = 4
JOINED = "concatenated_"
CHOOSES = Experiment(train=TrainSettings(metric="map_at_r"))
"""map_at_r chooses, whatever the row's paper chose by."""


def folds(task: Task) -> Score:
    """One reproduction; the first to need it runs, or resumes, the search that all share."""
    began = time.monotonic()
    split = fold_splits(task.table)
    found = search(
        task.shared,
        search_space(task.experiment, min(part.train.num_classes for part in split)),
        lambda values, folder: validated(task, values, folder, split),
        trials=task.trials,
        sampler=task.sampler,
    )
    experiment = with_values(combined(task.experiment, CHOOSES), found["values"])
    runs = [
        train_once(task, experiment, part, folder=task.folder / f"fold-{number}")
        for number, part in enumerate(split)
    ]
    test = runs[0].test
    keys = tuple(key for key in task.metrics if key not in COSTS)
    how: dict[str, Any] = {"seed": experiment.seed, "device": pick_device(task.device)}
    single = [measure(test, run.final, keys, similarity=task.similarity, **how) for run in runs]
    metrics = {key: float(np.mean([values[key] for values in single])) for key in keys}
    together = measure(test, joined([run.final for run in runs]), keys, **how)
    metrics |= {f"{JOINED}{key}": value for key, value in together.items()}
    kept = ", ".join(sorted({run.result["selected"]["what"] for run in runs}))
    facts = {
        "values": found["values"],
        "validation_map_at_r": found["value"],
        "trials": task.trials,
        "failed_trials": sum(slot["value"] is None for slot in found["slots"]),
    }
    return Score(metrics, VALIDATION, kept, round(time.monotonic() - began, 2), facts=facts)


def validated(task: Task, values: Mapping[str, float], folder: Path, split: tuple[Split, ...]) -> float:
    """Mean over the folds of the best validation map_at_r.

    Raises:
        TrainingError, ArgumentError: settings with which training breaks down or that a loss refuses.
    """
    experiment = with_values(combined(task.experiment, CHOOSES, Experiment(seed=0)), values)
    runs = [
        train_once(task, experiment, part, folder=folder / f"fold-{number}", score_test=False)
        for number, part in enumerate(split)
    ]
    return float(np.mean([run.result["validation"]["map_at_r"] for run in runs]))


def fold_splits(table: LabeledImages) -> tuple[Split, ...]:
    """Four cuts of the training classes, all with the same test classes.

    The Reality Check tests on the second half of the classes, in their order, also where the data names
    another split; the two agree on CUB-200-2011 and Cars196.
    """
    fit, test = training_half(table) if table.role is not None else half_split(table)
    return tuple(
        Split(train, held, test, fit, f"fold {n}") for n, (train, held) in enumerate(class_folds(fit, FOLDS))
    )


def joined(matrices: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Embeddings side by side, each made unit length first: (N, sum of widths)."""
    units = [matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12) for matrix in matrices]
    return np.concatenate(units, axis=1).astype(np.float32)
