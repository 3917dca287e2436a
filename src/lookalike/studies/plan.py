"""What a run of a study is going to do, and where its results lie.

OUT/
    runs/KEY/score.json                  one unit: a row with one seed; shared by all studies that need it
    PAPER/STUDY/VARIANT/plan.json        which units the rows of this run of the study are
    PAPER/STUDY/VARIANT/table.md ...     what has been measured so far

KEY is a hash of everything that decides the unit's numbers: experiment, data, protocol, metrics. So a unit
that is finished is never run again, by whichever study, and a changed setting is another unit.
"""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from lookalike.config.experiment import MODE_DEFAULTS, Experiment
from lookalike.data.dataset import LabeledImages
from lookalike.errors import FileError
from lookalike.studies.study import Study, recall_keys
from lookalike.utils.io import write_atomically

ALWAYS = ("map_at_r", "r_precision", "seconds_per_epoch")
PLAN = "plan.json"


@dataclass(frozen=True)
class PlannedRow:
    """A row of a plan: its data set, its units by seed, or why it cannot run."""

    dataset: str
    own_data: bool
    keys: list[str] = field(default_factory=list)
    why_not: str = ""


@dataclass(frozen=True)
class Plan:
    """One run of a study, as written to plan.json; `comparable` says whether rows are what the paper ran."""

    study: str
    variant: str
    protocol: str
    changes: str
    comparable: bool
    metrics: list[str]
    rows: dict[str, PlannedRow]

    def save(self, folder: Path) -> "Plan":
        """Writes the plan, together with the rows that another process has planned; returns the whole."""
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".plan.lock"):
            earlier = load_plan(folder).rows if (folder / PLAN).exists() else {}
            rows = dict(earlier)
            for name, row in self.rows.items():
                known = earlier[name].keys if name in earlier else []
                longer = known if known[: len(row.keys)] == row.keys else row.keys
                rows[name] = PlannedRow(row.dataset, row.own_data, longer, row.why_not)
            whole = Plan(**{**vars(self), "rows": rows})
            text = json.dumps(asdict(whole), indent=1) + "\n"
            write_atomically(folder / PLAN, lambda file: file.write_text(text))
        return whole


def load_plan(folder: Path) -> Plan:
    """The plan in a variant's folder.

    Raises:
        FileError: there is none, or it is damaged.
    """
    try:
        tree = json.loads((folder / PLAN).read_text())
        rows = {name: PlannedRow(**row) for name, row in tree.pop("rows").items()}
        return Plan(**tree, rows=rows)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise FileError(f"no readable plan of a study in '{folder}': {error}") from error


def plans_of(out: Path, study: Study) -> list[Path]:
    """The folders of the variants in which a study has been run."""
    return sorted(file.parent for file in (out / study.id).glob(f"*/{PLAN}"))


def metrics_of(study: Study, dataset: str) -> tuple[str, ...]:
    """What a unit of the study computes: its columns and some that cost nothing."""
    return tuple(sorted({*study.metrics, *recall_keys(dataset), *ALWAYS}))


def folder_name(parts: list[str], longest: int = 120) -> str:
    """The parts in one name that every file system takes; a long one ends in a hash of the whole."""
    name = re.sub(r"[^\w.=+-]+", "_", "-".join(part for part in parts if part))
    if len(name) <= longest:
        return name
    return f"{name[: longest - 9]}-{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}"


def unit_key(
    experiment: Experiment, table: LabeledImages, protocol: str, metrics: tuple[str, ...], trials: int
) -> str:
    """The name of a unit: hash of everything that decides its numbers, after a readable beginning."""
    facts: dict[str, Any] = {
        "experiment": experiment.model_dump(mode="json"),
        "defaults": MODE_DEFAULTS.get(experiment.train.mode or ""),  # what a None in it will become
        "data": table.digest(),
        "protocol": protocol,
        "metrics": metrics,
        "trials": trials if protocol == "folds" else None,
    }
    digest = hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=8).hexdigest()
    return folder_name([table.name[:40], experiment.loss.name, digest])


def score_of(out: Path, key: str) -> dict[str, Any] | None:
    """What a finished unit measured."""
    file = out / "runs" / key / "score.json"
    return json.loads(file.read_text()) if file.exists() else None


def failure_of(out: Path, key: str) -> str | None:
    """Why a unit failed the last time it was tried."""
    file = out / "runs" / key / "failed.txt"
    return file.read_text().strip() if file.exists() else None
