"""A search over settings that survives being killed and that several processes can share.

A search is a number of slots. Whoever takes a slot holds a lock file, which the operating system releases
when the process ends; the slot's value is then written to a file. Optuna proposes the settings from a journal
file that all processes append to, so each proposal knows all finished ones. Settings with which training
cannot be done are recorded as a failed trial, and never tried again.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from lookalike.errors import ArgumentError, LookalikeError, TrainingError
from lookalike.studies.protocols.search_spaces import Searched, drawn
from lookalike.utils.io import write_json
from lookalike.utils.validation import check_choice, optional_import

SAMPLERS = ("gp", "tpe")
Objective = Callable[[Mapping[str, float], Path], float]


class Busy(LookalikeError):
    """Other processes hold all the work that is left; come back when they are done."""


def search(
    folder: Path,
    space: tuple[Searched, ...],
    objective: Objective,
    *,
    trials: int,
    sampler: str,
) -> dict[str, Any]:
    """The best of `trials` settings; resumes whatever `folder` already holds.

    Args:
        objective: value (higher is better) of settings; the path is the slot's own folder. A TrainingError or
            ArgumentError makes the trial a failed one.
        sampler: "gp" (Gaussian process, the Bayesian optimization of the papers) or "tpe" (tree-structured
            Parzen estimator).

    Returns:
        `values` (by setting) and `value` of the best slot, and all `slots`.

    Raises:
        MissingExtraError: Optuna is not installed.
        Busy: every unfinished slot is another process's.
        TrainingError: every trial failed.
    """
    check_choice("sampler", sampler, SAMPLERS)
    study = _study(folder)
    for slot in range(trials):
        study.sampler = _sampler(sampler, slot)  # no two processes draw the same numbers
        _run_slot(study, folder / f"slot-{slot:03d}", slot, space, objective)
    files = sorted(folder.glob("slot-*.json"))[:trials]
    slots = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    if len(slots) < trials:
        raise Busy(f"{trials - len(slots)} of {trials} trials in '{folder}' are being run by other processes")
    done = [entry for entry in slots if entry["value"] is not None]
    if not done:
        raise TrainingError(f"all {trials} trials in '{folder}' failed; the last: {slots[-1]['error']}")
    best = max(done, key=lambda entry: float(entry["value"]))
    return {"values": best["values"], "value": best["value"], "slots": slots}


def _sampler(name: str, seed: int) -> Any:
    samplers = optional_import("optuna.samplers", "tune")
    if name == "gp":
        return samplers.GPSampler(seed=seed)
    return samplers.TPESampler(seed=seed, constant_liar=True)


def _study(folder: Path) -> Any:
    optuna = optional_import("optuna", "tune")
    journal = optional_import("optuna.storages.journal", "tune")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folder.mkdir(parents=True, exist_ok=True)
    return optuna.create_study(
        study_name="search",
        storage=optuna.storages.JournalStorage(journal.JournalFileBackend(str(folder / "journal.log"))),
        direction="maximize",
        load_if_exists=True,
    )


def _run_slot(study: Any, folder: Path, slot: int, space: tuple[Searched, ...], objective: Objective) -> None:
    """Runs one slot, unless it is finished or another process's."""
    finished = folder.with_suffix(".json")
    if finished.exists():
        return
    lock = FileLock(folder.with_suffix(".lock"), timeout=0)
    try:
        lock.acquire()
    except Timeout:
        return
    try:
        if finished.exists():
            return
        trial = _trial(study, slot)
        entry: dict[str, Any] = {"slot": slot, "values": drawn(trial, space), "value": None}
        try:
            entry["value"] = objective(entry["values"], folder)
            study.tell(trial, entry["value"])
        except (TrainingError, ArgumentError) as error:
            entry["error"] = " ".join(str(error).split())
            study.tell(trial, state=optional_import("optuna", "tune").trial.TrialState.FAIL)
        write_json(finished, entry)
    finally:
        lock.release()


def _trial(study: Any, slot: int) -> Any:
    """The slot's trial: the one that a killed process left running, with the same settings, or a new one."""
    optuna = optional_import("optuna", "tune")
    for frozen in study.get_trials(deepcopy=False):
        if frozen.user_attrs.get("slot") == slot and not frozen.state.is_finished():
            return optuna.trial.Trial(study, frozen._trial_id)
    trial = study.ask()
    trial.set_user_attr("slot", slot)
    return trial
