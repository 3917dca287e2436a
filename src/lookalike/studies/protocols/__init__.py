"""How runs make a number. See `PROTOCOLS`; each is a function of a `Task`, one unit of work a seed."""

from lookalike.studies.protocols.folds import folds
from lookalike.studies.protocols.hyperparameter_search import Busy
from lookalike.studies.protocols.single_run import TEST, VALIDATION, held_out, papers, two_stage
from lookalike.studies.protocols.task import Protocol, Score, Task

PROTOCOLS: dict[str, Protocol] = {
    "held_out": Protocol(
        "validation classes from the training half choose; test scored once", VALIDATION, held_out
    ),
    "papers": Protocol("half of the classes test, and choose the epoch: selected on test", TEST, papers),
    "two_stage": Protocol(
        "ProxyNCA++: validated on half of the training classes, repeated on all", VALIDATION, two_stage
    ),
    "folds": Protocol("Reality Check: search on four class folds, then reproductions", VALIDATION, folds),
}
"""Every protocol by name; `held_out` is the default."""

__all__ = ["PROTOCOLS", "Busy", "Protocol", "Score", "Task"]
