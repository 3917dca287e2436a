"""A search over settings that survives being killed and that several processes can share.

A search is a number of slots. Whoever takes a slot holds a lock file, which the operating system releases
when the process ends, however it ends; the slot's value is then written to a file. Optuna proposes the
settings from a journal file that all processes append to, so each proposal knows all finished ones, on
whatever machine that sees the folder. Exactly as many trials are finished as asked for.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from lookalike.errors import LookalikeError
from lookalike.studies.protocols.search_spaces import Range, drawn
from lookalike.utils.io import write_atomically
from lookalike.utils.validation import check_choice, optional_import

SAMPLERS = ("tpe", "gp")


class Busy(LookalikeError):
    """Other processes hold all the work that is left; come back when they are done."""


def search(
    folder: Path,
    ranges: tuple[Range, ...],
    objective: Callable[[list[str], Path], float],
    *,
    trials: int = 50,
    sampler: str = "tpe",
    seed: int = 0,
) -> dict[str, Any]:
    """The best of `trials` settings; goes on with whatever `folder` already holds.

    Args:
        objective: value (higher is better) of a list of overrides; the path is the slot's own folder.
        sampler: "tpe" (tree-structured Parzen estimator) or "gp" (Gaussian process).

    Returns:
        `overrides` and `value` of the best slot, and all `slots`.

    Raises:
        MissingExtraError: Optuna is not installed.
        Busy: every unfinished slot is another process's.
    """
    check_choice("sampler", sampler, SAMPLERS)
    study = _study(folder)
    for slot in range(trials):
        study.sampler = _sampler(sampler, 1_000 * seed + slot)  # no two processes draw the same numbers
        _run_slot(study, folder / f"slot-{slot:03d}", slot, ranges, objective)
    done = [json.loads(file.read_text()) for file in sorted(folder.glob("slot-*.json"))][:trials]
    if len(done) < trials:
        raise Busy(f"{trials - len(done)} of {trials} trials in '{folder}' are being run by other processes")
    best = max(done, key=lambda entry: float(entry["value"]))
    return {"overrides": best["overrides"], "value": best["value"], "slots": done}


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


def _run_slot(
    study: Any,
    folder: Path,
    slot: int,
    ranges: tuple[Range, ...],
    objective: Callable[[list[str], Path], float],
) -> None:
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
        overrides = drawn(trial, ranges)
        value = objective(overrides, folder)
        study.tell(trial, value)
        entry = json.dumps({"slot": slot, "overrides": overrides, "value": value})
        write_atomically(finished, lambda file: file.write_text(entry))
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
