"""Runs a study: row by row and seed by seed, going on where an earlier run stopped.

Seeds are the outer loop, so a run that ends early leaves a whole table with fewer seeds. A unit that another
process holds is passed over: any number of processes can be started on the same folder.
"""

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from lookalike.config.experiment import Experiment
from lookalike.data.dataset import LabeledImages
from lookalike.errors import LookalikeError
from lookalike.studies.adapt import Adaptation
from lookalike.studies.datasets import Images
from lookalike.studies.plan import Plan, PlannedRow, folder_name, metrics_of, score_of, unit_key
from lookalike.studies.protocols import PROTOCOLS, Busy, Task
from lookalike.studies.protocols.search_spaces import ranges_of
from lookalike.studies.study import Row, Study
from lookalike.utils.io import write_atomically
from lookalike.utils.progress import Progress
from lookalike.utils.validation import look_up


@dataclass(frozen=True)
class Options:
    """How a study is run; see `lookalike study run --help`."""

    out: Path
    images: Images
    adaptation: Adaptation = field(default_factory=Adaptation)
    rows: tuple[str, ...] = ()
    seeds: int = 5
    protocol: str = "held_out"
    trials: int = 50
    budget_seconds: float | None = None
    keep_models: bool = False
    device: str = "auto"
    progress: Progress = field(default_factory=Progress)


@dataclass(frozen=True)
class Unit:
    """A row with one seed."""

    row: str
    key: str
    shared: str
    experiment: Experiment
    table: LabeledImages
    metrics: tuple[str, ...]


@dataclass
class Done:
    """What a run of a study did."""

    folder: Path
    ran: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    out_of_time: bool = False


def run_study(study: Study, options: Options) -> Done:
    """Runs what is not finished yet, and writes the plan.

    Raises:
        UnknownNameError: no such row or protocol.
    """
    look_up(PROTOCOLS, options.protocol, "protocol")
    rows = [study.row(name) for name in options.rows] or list(study.rows)
    planned, units = _planned(study, rows, options)
    plan = Plan(
        study.id,
        variant_of(planned, options),
        options.protocol,
        options.adaptation.describe(),
        options.adaptation.comparable,
        list(study.metrics),
        planned,
    )
    done = Done(options.out / study.id / plan.variant)
    plan.save(done.folder)
    done.skipped = {name: row.why_not for name, row in planned.items() if row.why_not}
    began = time.monotonic()
    for unit in units:
        label = f"{unit.row}, seed {unit.experiment.seed}"
        if score_of(options.out, unit.key) is not None:
            done.known.append(label)
            continue
        if options.budget_seconds is not None and time.monotonic() - began > options.budget_seconds:
            done.out_of_time = True
            break
        _run_unit(unit, label, options, done)
    return done


def variant_of(planned: dict[str, PlannedRow], options: Options) -> str:
    """Name of the folder of this way to run the study: data, protocol, and what was changed."""
    names = sorted({row.dataset for row in planned.values() if row.dataset})
    own = all(row.own_data for row in planned.values() if row.dataset)
    data = "papers-data" if own and not options.adaptation.smoke else "+".join(names) or "no-data"
    change = options.adaptation
    parts = [
        data,
        options.protocol,
        change.mode or "",
        change.backbone or "",
        "smoke" if change.smoke else "",
    ]
    return folder_name([*parts, *change.changing])


def _planned(study: Study, rows: list[Row], options: Options) -> tuple[dict[str, PlannedRow], list[Unit]]:
    """Every row's plan, and its units with the seed as the outer loop, identical units once."""
    planned: dict[str, PlannedRow] = {}
    units: dict[int, list[Unit]] = {seed: [] for seed in range(options.seeds)}
    for row in rows:
        if row.recipe is None:
            planned[row.name] = PlannedRow("", False, why_not="only cited in the paper")
            continue
        try:
            table = options.images.of(row.dataset)
            own = [_unit(study, row, table, seed, options) for seed in range(options.seeds)]
        except LookalikeError as error:
            planned[row.name] = PlannedRow("", False, why_not=" ".join(str(error).split()))
            continue
        planned[row.name] = PlannedRow(table.name, table.name == row.dataset, [unit.key for unit in own])
        for seed, unit in enumerate(own):
            units[seed].append(unit)
    return planned, list(_once(unit for seed in units.values() for unit in seed))


def _unit(study: Study, row: Row, table: LabeledImages, seed: int, options: Options) -> Unit:
    experiment = options.adaptation.apply(row, table, seed)
    if options.protocol == "folds":
        ranges_of(experiment.loss.name)
    metrics = metrics_of(study, row.dataset)

    def key(of: Experiment) -> str:
        return unit_key(of, table, options.protocol, metrics, options.trials)

    return Unit(row.name, key(experiment), key(experiment.override(["seed=0"])), experiment, table, metrics)


def _once(units: Iterator[Unit]) -> Iterator[Unit]:
    seen: set[str] = set()
    for unit in units:
        if unit.key not in seen:
            seen.add(unit.key)
            yield unit


def _run_unit(unit: Unit, label: str, options: Options, done: Done) -> None:
    """Runs a unit under its lock, and keeps its score; a failure is noted and the next unit goes on."""
    folder = options.out / "runs" / unit.key
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        done.elsewhere.append(label)
        return
    try:
        if score_of(options.out, unit.key) is not None:
            done.known.append(label)
            return
        options.progress.say(f"{label}: {unit.key}")
        task = Task(
            unit.table,
            unit.experiment,
            folder,
            options.out / "searches" / unit.shared,
            unit.metrics,
            options.trials,
            options.device,
            options.progress,
        )
        score = PROTOCOLS[options.protocol].run(task)
    except Busy:
        done.elsewhere.append(label)
    except LookalikeError as error:
        done.failed[label] = " ".join(str(error).split())
        (folder / "failed.txt").write_text(done.failed[label] + "\n")
    else:
        facts = {"data": unit.table.name, "protocol": options.protocol, "seed": unit.experiment.seed}
        text = json.dumps({**score.to_dict(), **facts}, indent=1) + "\n"
        write_atomically(folder / "score.json", lambda file: file.write_text(text))
        (folder / "failed.txt").unlink(missing_ok=True)
        if not options.keep_models:
            _drop_weights(folder)
        done.ran.append(label)
    finally:
        lock.release()


def _drop_weights(folder: Path) -> None:
    """Removes models and training states of finished runs; settings, logs and results stay."""
    for state in folder.rglob("training_state"):
        shutil.rmtree(state)
    for file in folder.rglob("*.safetensors"):
        file.unlink()
