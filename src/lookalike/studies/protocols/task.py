"""Input and output of a protocol: a task (one experiment with one seed) and its score (one value per metric).

`train_once` runs one training of a task, or resumes it.
"""

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lookalike.config.experiment import Experiment
from lookalike.data.dataset import LabeledImages
from lookalike.data.splits import Split
from lookalike.training.context import RunOptions
from lookalike.training.fit import FitResult, fit
from lookalike.training.run_dir import RunDir
from lookalike.utils.progress import Progress


@dataclass(frozen=True)
class Task:
    """One experiment with one seed, to be run by a protocol.

    Attributes:
        table: the whole data set.
        experiment: every setting, and the seed.
        folder: where the runs lie.
        shared: a folder that all seeds share, for a search over settings.
        metrics: keys to compute.
        similarity: of keys that do not say it: "cosine", or "euclidean" of raw vectors.
        show_retrievals: whether to keep the nearest images of some queries.
        trials: settings that a search tries.
        sampler: how a search proposes settings: "gp" (Gaussian process) or "tpe".
    """

    table: LabeledImages
    experiment: Experiment
    folder: Path
    shared: Path
    metrics: tuple[str, ...] = ("recall_at_1", "map_at_r")
    similarity: str = "cosine"
    show_retrievals: bool = False
    trials: int = 50
    sampler: str = "gp"
    device: str = "auto"
    progress: Progress = field(default_factory=Progress)


@dataclass(frozen=True)
class Score:
    """What a protocol measured.

    Attributes:
        metrics: key -> value; shares are 0-1.
        selected_on: what chose the epoch: "validation classes", or "test".
        kept: "start" where training never beat the untrained network, else "trained" or "finished".
        seconds: of everything.
        curve: for each epoch its number, seconds since the start of training, steps, metrics of what selects.
        facts: anything else worth keeping, such as found settings.
    """

    metrics: dict[str, float]
    selected_on: str
    kept: str
    seconds: float
    curve: list[dict[str, float]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Protocol:
    """How runs make a number.

    Attributes:
        about: one line for lists.
        selected_on: what chooses, as tables say it.
        run: the protocol itself.
    """

    about: str
    selected_on: str
    run: Callable[[Task], Score]


def train_once(
    task: Task,
    experiment: Experiment,
    split: Split | None,
    *,
    folder: Path | None = None,
    score_test: bool = True,
) -> FitResult:
    """`fit` of a task, resuming a run that was interrupted."""
    out = folder or task.folder / "run"
    begun = RunDir(out).holds_run()
    if out.exists() and not begun:  # killed while the folder was being made
        shutil.rmtree(out)
    return fit(
        task.table,
        out,
        None if begun else experiment,
        resume=begun,
        split=split,
        score_test=score_test,
        options=RunOptions(device=task.device, progress=task.progress),
    )


def training_curve(folder: Path) -> list[dict[str, float]]:
    """Epoch, seconds of training so far, steps and the selecting metrics, from a run's log."""
    points, elapsed = [], 0.0
    for record in RunDir(folder).read_log("select"):
        elapsed += record["seconds"]
        facts = {"epoch": record["epoch"], "seconds": round(elapsed, 3), "steps": record.get("steps", 0)}
        points.append(facts | record["validation"])
    return points
