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

from lookalike.errors import LookalikeError
from lookalike.studies.plan import Options, Planned, conditions_of, plan_runs
from lookalike.studies.protocols import PROTOCOLS, Busy
from lookalike.studies.results import Result, append_result, load_results, table_folder
from lookalike.studies.study import Study
from lookalike.utils.validation import look_up


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
    planned, done.skipped = plan_runs(study, rows, options)
    done.notes = {one.row.name: one.other_groups for one in planned if one.other_groups}
    done.conditions = conditions_of(planned, options)
    done.folder = table_folder(options.out, study.id, done.conditions)
    for name, note in done.notes.items():
        options.progress.say(f"note: {name}: {note}")
    began = time.monotonic()
    for one in planned:
        if options.budget_seconds is not None and time.monotonic() - began > options.budget_seconds:
            done.out_of_time = True
            break
        _run(study, one, options, done)
    return done


def _run(study: Study, one: Planned, options: Options, done: Done) -> None:
    """Runs one row with one seed under its lock and keeps its result; after a failure the next row runs."""
    folder = one.task.folder
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
        score = PROTOCOLS[one.protocol].run(one.task)
    except Busy:
        done.elsewhere.append(one.label)
    except LookalikeError as error:
        done.failed[one.label] = " ".join(str(error).split())
        append_result(options.out, _result(study, one, done, {}, error=done.failed[one.label]))
    else:
        append_result(options.out, _result(study, one, done, score.to_dict()))
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
    mine = _result(study, one, done, found[0].score)
    if mine not in found:
        append_result(options.out, mine)
    return True


def _result(study: Study, one: Planned, done: Done, score: dict[str, Any], *, error: str = "") -> Result:
    return Result(
        study=study.id,
        row=one.row.name,
        seed=one.task.experiment.seed,
        key=one.key,
        conditions=done.conditions,
        dataset=one.task.table.name,
        protocol=one.protocol,
        comparable=one.comparable,
        score=score,
        error=error,
    )


def _drop_weights(folder: Path) -> None:
    """Removes models and training states of finished runs; settings, logs and results stay."""
    for state in folder.rglob("training_state"):
        shutil.rmtree(state)
    for file in folder.rglob("*.safetensors"):
        file.unlink()
