"""Runs a study: row by row and seed by seed, resuming where an earlier run stopped.

Seeds are the outer loop, so a run that ends early leaves a whole table with fewer seeds. A run that another
process holds is passed over: any number of processes can be started on the same folder.
"""

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from lookalike.config.experiment import Experiment
from lookalike.data.dataset import LabeledImages
from lookalike.errors import LookalikeError
from lookalike.studies.adapt import Adaptation
from lookalike.studies.datasets import Images, other_groups
from lookalike.studies.metric_keys import COSTS, split_key
from lookalike.studies.protocols import PROTOCOLS, Busy, Task
from lookalike.studies.protocols.search_spaces import search_space
from lookalike.studies.results import AS_PUBLISHED, Result, append_result, folder_name, load_results, run_key
from lookalike.studies.study import Row, Study, recall_keys
from lookalike.utils.progress import Progress
from lookalike.utils.validation import look_up

ALWAYS = ("map_at_r", "r_precision", "seconds_per_epoch")
SEEDS = {"folds": 10}
DEFAULT_SEEDS = 5


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a study is run; see `lookalike study run --help`. None: as the row's recipe says."""

    out: Path
    images: Images
    adaptation: Adaptation = field(default_factory=Adaptation)
    rows: tuple[str, ...] = ()
    seeds: int | None = None
    protocol: str | None = None
    trials: int | None = None
    sampler: str = "gp"
    budget_seconds: float | None = None
    keep_models: bool = False
    device: str = "auto"
    progress: Progress = field(default_factory=Progress)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A row with one seed, ready to run."""

    row: Row
    key: str
    shared_key: str
    experiment: Experiment
    table: LabeledImages
    protocol: str
    metrics: tuple[str, ...]
    show_retrievals: bool
    trials: int
    other_groups: str

    @property
    def other_search(self) -> bool:
        """Whether a search tries another number of settings than the row's recipe says."""
        assert self.row.recipe is not None
        return self.protocol == "folds" and self.trials != self.row.recipe.trials

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.row.name}, seed {self.experiment.seed}"

    def answered_by(self, score: dict[str, Any]) -> bool:
        """Whether a score holds all that is wanted; costs cannot always be measured."""
        if not score or (self.show_retrievals and "retrievals" not in score["facts"]):
            return False
        return all(metric in score["metrics"] for metric in self.metrics if metric not in COSTS)


@dataclass
class Done:
    """What a run of a study did."""

    conditions: str
    folder: Path
    ran: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    out_of_time: bool = False


def run_study(study: Study, options: Options) -> Done:
    """Runs what has no result yet.

    Raises:
        UnknownNameError: no such row or protocol.
    """
    if options.protocol is not None:
        look_up(PROTOCOLS, options.protocol, "protocol")
    rows = [study.row(name) for name in options.rows] or list(study.rows)
    options.out.mkdir(parents=True, exist_ok=True)
    done = Done("", options.out)
    planned = _planned(study, rows, options, done)
    done.notes = {one.row.name: one.other_groups for one in planned if one.other_groups}
    done.conditions = _conditions(planned, options)
    done.folder = table_folder(options.out, study, done.conditions)
    for name, note in done.notes.items():
        options.progress.say(f"note: {name}: {note}")
    began = time.monotonic()
    for one in planned:
        if options.budget_seconds is not None and time.monotonic() - began > options.budget_seconds:
            done.out_of_time = True
            break
        _run(study, one, options, done)
    return done


def table_folder(out: Path, study: Study, conditions: str) -> Path:
    """Where the table of a study under some conditions lies."""
    return out / study.id / folder_name(conditions)


def wanted_metrics(study: Study, dataset: str) -> tuple[str, ...]:
    """The study's metrics that fit a data set, the recalls that the papers print for it, and some that cost nothing."""
    recalls = recall_keys(dataset)
    fitting = {
        key
        for key in study.metrics
        if not split_key(key)[1].startswith("recall_at_") or split_key(key)[1] in recalls
    }
    return tuple(sorted({*fitting, *recalls, *ALWAYS}))


def _conditions(planned: list[Planned], options: Options) -> str:
    """What the whole run changes: data, protocol, network, settings."""
    names = sorted({one.table.name for one in planned})
    own = all(one.table.name == one.row.dataset for one in planned) and not options.adaptation.smoke
    protocol = options.protocol
    same = protocol is None or all(one.row.recipe and one.row.recipe.protocol == protocol for one in planned)
    parts = [
        "" if own else "+".join(names),
        "" if same else f"protocol {protocol}",
        f"{options.trials} trials" if any(one.other_search for one in planned) else "",
        options.adaptation.describe(),
    ]
    return ", ".join(part for part in parts if part) or AS_PUBLISHED


def _planned(study: Study, rows: list[Row], options: Options, done: Done) -> list[Planned]:
    """Every row with every seed, the seed as the outer loop; notes the rows that cannot run."""
    by_row: list[list[Planned]] = []
    for row in rows:
        if row.recipe is None:
            done.skipped[row.name] = "only cited in the paper"
            continue
        protocol = options.protocol or row.recipe.protocol
        seeds = options.seeds or SEEDS.get(protocol, DEFAULT_SEEDS)
        try:
            table = options.images.of(row.dataset)
            by_row.append([_plan(study, row, table, protocol, seed, options) for seed in range(seeds)])
        except LookalikeError as error:
            done.skipped[row.name] = " ".join(str(error).split())
    longest = max(map(len, by_row), default=0)
    return [of_row[seed] for seed in range(longest) for of_row in by_row if seed < len(of_row)]


def _plan(
    study: Study, row: Row, table: LabeledImages, protocol: str, seed: int, options: Options
) -> Planned:
    assert row.recipe is not None
    experiment = options.adaptation.apply(row, table, seed)
    trials = options.trials or row.recipe.trials
    how: dict[str, Any] = {"similarity": row.recipe.similarity}
    if protocol == "folds":
        search_space(experiment, table.num_classes)
        how |= {"trials": trials, "sampler": options.sampler}
    keys = [run_key(one, table, protocol, how) for one in (experiment, experiment.override(["seed=0"]))]
    return Planned(
        row=row,
        key=keys[0],
        shared_key=keys[1],
        experiment=experiment,
        table=table,
        protocol=protocol,
        metrics=wanted_metrics(study, row.dataset),
        show_retrievals=study.figure is not None and study.figure.kind == "retrievals",
        trials=trials,
        other_groups=other_groups(row, table),
    )


def _run(study: Study, one: Planned, options: Options, done: Done) -> None:
    """Runs one row with one seed under its lock and keeps its result; after a failure the next row runs."""
    folder = options.out / "runs" / one.key
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        done.elsewhere.append(one.label)
        return
    try:
        if _known(study, one, options, done):
            done.known.append(one.label)
            return
        options.progress.say(f"{one.label}: {one.key}")
        score = PROTOCOLS[one.protocol].run(_task(study, one, folder, options))
    except Busy:
        done.elsewhere.append(one.label)
    except LookalikeError as error:
        done.failed[one.label] = " ".join(str(error).split())
        append_result(options.out, _result(one, study, options, done, {}, error=done.failed[one.label]))
    else:
        append_result(options.out, _result(one, study, options, done, score.to_dict()))
        if not options.keep_models:
            _drop_weights(folder)
        done.ran.append(one.label)
    finally:
        lock.release()


def _known(study: Study, one: Planned, options: Options, done: Done) -> bool:
    """Whether the run has a result; one of another study, or of a row with another name, is taken over."""
    found = [
        result
        for result in load_results(options.out)
        if result.key == one.key and one.answered_by(result.score)
    ]
    if not found:
        return False
    mine = _result(one, study, options, done, found[0].score)
    if mine not in found:
        append_result(options.out, mine)
    return True


def _result(
    one: Planned, study: Study, options: Options, done: Done, score: dict[str, Any], *, error: str = ""
) -> Result:
    recipe = one.row.recipe
    assert recipe is not None
    comparable = options.adaptation.comparable and one.table.name == one.row.dataset and not one.other_groups
    return Result(
        study=study.id,
        row=one.row.name,
        seed=one.experiment.seed,
        key=one.key,
        conditions=done.conditions,
        dataset=one.table.name,
        protocol=one.protocol,
        comparable=comparable and one.protocol == recipe.protocol and not one.other_search,
        score=score,
        error=error,
    )


def _task(study: Study, one: Planned, folder: Path, options: Options) -> Task:
    assert one.row.recipe is not None
    return Task(
        table=one.table,
        experiment=one.experiment,
        folder=folder,
        shared=options.out / "searches" / one.shared_key,
        metrics=one.metrics,
        similarity=one.row.recipe.similarity,
        show_retrievals=one.show_retrievals,
        trials=one.trials,
        sampler=options.sampler,
        device=options.device,
        progress=options.progress,
    )


def _drop_weights(folder: Path) -> None:
    """Removes models and training states of finished runs; settings, logs and results stay."""
    for state in folder.rglob("training_state"):
        shutil.rmtree(state)
    for file in folder.rglob("*.safetensors"):
        file.unlink()
