"""The run directory: what a training run leaves behind, all of it readable without this package.

RUN/
    model.safetensors, config.json   the network, its preprocessing, class names (models.checkpoint)
    experiment.yaml                  every setting, complete
    data.json                        what was trained on: source, digests, counts
    classes.json                     classes that the model has seen, in this run and those before it
    environment.json                 versions, device, command
    log.jsonl                        one JSON object per epoch
    training_state/                  select.* and refit.*: weights, optimizer, history, to resume; proxies.*
    result.json                      start, validation, test; what selected; seconds; counts
    test_queries.json, .npz          results per test query and class, for `lookalike compare`
    report.html                      human-readable report
    similarities.json                histograms of the similarities of test pairs, as in the report
    tree.json                        with a hierarchical loss: which classes were grouped
    logs/                            with --log-to: the numbers of each step, per stage
    .lock                            held by the process that trains
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from lookalike.config.experiment import Experiment, load_experiment
from lookalike.errors import FileError
from lookalike.utils.io import os_errors, read_checked, remove_temporaries, to_json, write_checked, write_text
from lookalike.utils.what_is import RUN, found_instead

MODEL_FILES = ("model.safetensors", "config.json")
RESULT_FILES = (
    "result.json",
    "report.html",
    "similarities.json",
    "tree.json",
    "test_queries.json",
    "test_queries.npz",
    "log.jsonl",
)
FACTS = ("data.json", "classes.json", "environment.json")
STATE, LOGS, LOCK = "training_state", "logs", ".lock"
OURS = {*MODEL_FILES, *RESULT_FILES, *FACTS, STATE, LOGS, LOCK}
"""What a run that was ended before its first epoch may have left, besides temporary files."""
STAGES = ("select", "refit")
LOCK_SECONDS = 10
"""Decoding processes of a killed run hold its lock for a few seconds more."""


class RunDir:
    """Names and formats of the files in a run directory."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def check_free(self, *, overwrite: bool = False) -> None:
        """Refuses a folder that a new run may not use.

        Raises:
            FileError: it contains a run (unless `overwrite`), or is something else.
        """
        with os_errors("read", self.path, "name another folder"):
            if self.path.exists() and not self.path.is_dir():
                raise FileError(f"'{self.path}' is a file; name a folder for the run")
            if self.holds_run():
                if not overwrite:
                    raise FileError(
                        f"'{self.path}' already contains a run; continue it with --resume, replace it with "
                        "--overwrite, or name another folder"
                    )
            elif self.path.is_dir():
                names = {entry.name for entry in self.path.iterdir() if not entry.name.endswith(".tmp")}
                if names - OURS:
                    raise FileError(f"'{self.path}' contains other files; name a new folder for the run")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Makes the folder and keeps other trainings out of it; removes temporary files of killed ones.

        Raises:
            FileError: another process trains there, or the folder cannot be written.
        """
        lock = FileLock(self.path / LOCK)
        with os_errors("write the run directory", self.path, "name a folder that can be written"):
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                lock.acquire(timeout=LOCK_SECONDS)
            except Timeout:
                raise FileError(
                    f"another process is training in '{self.path}'; wait for it or name another folder"
                ) from None
            remove_temporaries(self.path)
        try:
            yield
        finally:
            lock.release()

    def create(self, experiment: Experiment, facts: dict[str, Any], environment: dict[str, Any]) -> None:
        """Begins a run. The model of an earlier one is removed first, so that it is never paired with new settings."""
        with os_errors("write the run directory", self.path, "name a folder that can be written"):
            for name in (*MODEL_FILES, *RESULT_FILES):
                (self.path / name).unlink(missing_ok=True)
            for name in (STATE, LOGS):
                shutil.rmtree(self.path / name, ignore_errors=True)
            write_checked(self.path / "data.json", facts)
            write_checked(self.path / "environment.json", environment)
            experiment.save(self.path / "experiment.yaml")  # from here on this is a run

    def holds_run(self) -> bool:
        """Whether a run was begun here."""
        return (self.path / "experiment.yaml").is_file()

    def is_finished(self) -> bool:
        """Whether the run has ended; until then its model is that of the best epoch so far."""
        return (self.path / "result.json").is_file()

    def experiment(self) -> Experiment:
        """The run's settings.

        Raises:
            FileError: no run here.
        """
        if not self.holds_run():
            raise FileError(
                f"'{self.path}' is not a run directory{found_instead(self.path)}; expected {RUN} (with experiment.yaml)"
            )
        return load_experiment(self.path / "experiment.yaml")

    def save_experiment(self, experiment: Experiment) -> None:
        """Writes the settings of the run."""
        with os_errors("write", self.path / "experiment.yaml", "free space or name another folder"):
            experiment.save(self.path / "experiment.yaml")

    def write_json(self, name: str, value: Mapping[str, object]) -> None:
        """Writes a JSON file with a checksum, whole or not at all."""
        with os_errors("write", self.path / name, "free space or name another folder"):
            write_checked(self.path / name, value)

    def read_json(self, name: str) -> dict[str, Any]:
        """Reads a JSON file.

        Raises:
            FileError: it is missing or damaged.
        """
        try:
            return read_checked(self.path / name)
        except FileError as error:
            raise FileError(
                f"{error} (was the run '{self.path}' interrupted? resume it with --resume)"
            ) from error

    def state_path(self, stage: str) -> Path:
        """Where the training state of 'select' or 'refit' is saved; see `lookalike.training.state`."""
        return self.path / STATE / stage

    def write_log(self, stage: str, history: list[dict[str, Any]]) -> None:
        """Writes log.jsonl: the stages before `stage` as logged, then its epochs as the state has them."""
        earlier = STAGES[: STAGES.index(stage)]
        records = [record for name in earlier for record in self._logged(name)]
        records += [{"stage": stage, **record} for record in history]
        lines = [to_json(record) for record in records]
        with os_errors("write", self.path / "log.jsonl", "free space or name another folder"):
            write_text(self.path / "log.jsonl", "".join(f"{line}\n" for line in lines))

    def read_log(self, stage: str) -> list[dict[str, Any]]:
        """The epochs of a stage, as logged.

        Raises:
            FileError: the log is missing or damaged.
        """
        file = self.path / "log.jsonl"
        try:
            records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
            return [record for record in records if record["stage"] == stage]
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise FileError(f"cannot read '{file}': {error}; --resume writes it again") from error

    def _logged(self, stage: str) -> list[dict[str, Any]]:
        """The epochs of a stage: as logged, or from its state where the log is damaged."""
        with suppress(FileError):
            if records := self.read_log(stage):
                return records
        from lookalike.training.tensor_tree import load_tree  # loads torch, which `show` can do without

        state = self.state_path(stage)
        if not state.with_suffix(".json").exists():
            return []
        return [{"stage": stage, **record} for record in load_tree(state)["history"]]
