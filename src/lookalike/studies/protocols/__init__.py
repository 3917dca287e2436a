"""Evaluation protocols: functions that train and test a `Task`, one experiment with one seed."""

from lookalike.studies.protocols.folds import folds
from lookalike.studies.protocols.hyperparameter_search import Busy
from lookalike.studies.protocols.single_run import TEST, VALIDATION, held_out, papers, two_stage
from lookalike.studies.protocols.task import Protocol, Score, Task

PROTOCOLS: dict[str, Protocol] = {
    "held_out": Protocol(
        "15 % of the training classes choose the epoch; the test classes are scored once",
        VALIDATION,
        held_out,
    ),
    "papers": Protocol(
        "trained on all training classes; the test classes choose the epoch: selected on test", TEST, papers
    ),
    "two_stage": Protocol(
        "ProxyNCA++: half of the training classes choose epoch and schedule, repeated on all",
        VALIDATION,
        two_stage,
    ),
    "folds": Protocol(
        "Reality Check and HPL: settings searched on four class folds, then four models per seed",
        VALIDATION,
        folds,
    ),
}
"""Every protocol by name."""

__all__ = ["PROTOCOLS", "Busy", "Protocol", "Score", "Task"]
