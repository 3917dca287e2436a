"""What a protocol is given and what it returns: one experiment, one seed, one number for each metric.

`Task` is the question, `Score` the answer; `train_once` runs one training of a task, and goes on with one
that was interrupted. Which metric is computed how stands in `measures`.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lookalike.config.experiment import Experiment
from lookalike.data.dataset import LabeledImages
from lookalike.data.splits import Split
from lookalike.training.fit import FitResult, fit
from lookalike.training.run_dir import RunDir
from lookalike.utils.progress import Progress


@dataclass(frozen=True)
class Task:
    """One unit of work of a protocol.

    Attributes:
        table: the whole data set.
        experiment: every setting; its seed is the unit's.
        folder: where this unit leaves its runs.
        shared: a folder that the units of all seeds share, for a search over settings.
        metrics: keys to compute.
        trials: settings that a search tries.
    """

    table: LabeledImages
    experiment: Experiment
    folder: Path
    shared: Path
    metrics: tuple[str, ...] = ("recall_at_1", "map_at_r")
    trials: int = 50
    device: str = "auto"
    progress: Progress = field(default_factory=Progress)


@dataclass(frozen=True)
class Score:
    """What one unit measured.

    Attributes:
        metrics: key -> value; shares are 0-1.
        selected_on: what chose the epoch: "validation classes", or "test".
        kept: "start" where training never beat the untrained network, else "trained" or "finished".
        seconds: of the whole unit.
        curve: an entry an epoch: epoch, seconds since the start of training, metrics of what selects.
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
        run: one unit.
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
    """`fit` of a task, going on where an earlier, killed one stopped."""
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
        device=task.device,
        progress=task.progress,
    )


def training_curve(folder: Path) -> list[dict[str, float]]:
    """Epoch, seconds of training so far and the selecting metrics, from a run's log."""
    points, elapsed = [], 0.0
    for line in (folder / "log.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["stage"] != "select":
            continue
        elapsed += record["seconds"]
        points.append({"epoch": record["epoch"], "seconds": round(elapsed, 3), **record["validation"]})
    return points
