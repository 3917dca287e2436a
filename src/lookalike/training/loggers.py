"""Loggers of each training step's numbers: CSV files, TensorBoard, Weights & Biases.

A logger is one class with `write` and `close`, and one line in `LOGGERS`.
"""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from lookalike.utils.io import os_errors, write_text
from lookalike.utils.validation import look_up, optional_import

Kind = Literal["step", "epoch"]


@dataclass(frozen=True)
class LogTarget:
    """What a logger writes about and where.

    Attributes:
        folder: `logs/select` or `logs/refit` of the run directory.
        name: of the run and its stage.
        settings: the experiment.
        steps_done: of the interrupted run that is continued; later steps are logged again.
    """

    folder: Path
    name: str
    settings: dict[str, Any]
    steps_done: int


class Logger(Protocol):
    """Takes the numbers of a step or an epoch."""

    def write(self, kind: Kind, step: int, values: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class CsvLogger:
    """`steps.csv` and `epochs.csv`: one row per step and per epoch, on disk as soon as it is known."""

    def __init__(self, target: LogTarget) -> None:
        self._folder = target.folder
        for kind in ("step", "epoch"):
            _keep_rows(self._file(kind), target.steps_done)

    def write(self, kind: Kind, step: int, values: Mapping[str, float]) -> None:
        file = self._file(kind)
        with os_errors("write", file, "free space"), file.open("a", encoding="utf-8", newline="") as out:
            rows = csv.writer(out, lineterminator="\n")
            if out.tell() == 0:
                rows.writerow(["step", *values])
            rows.writerow([step, *(f"{value:.7g}" for value in values.values())])

    def close(self) -> None:
        """Nothing is open between rows."""

    def _file(self, kind: str) -> Path:
        return self._folder / f"{kind}s.csv"


class TensorBoardLogger:
    """Event files for `tensorboard --logdir RUN/logs`."""

    def __init__(self, target: LogTarget) -> None:
        optional_import("tensorboard", "tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(
            target.folder, purge_step=target.steps_done + 1 if target.steps_done else None
        )

    def write(self, kind: Kind, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        self._writer.close()


class WandbLogger:
    """A run of the project `lookalike` in Weights & Biases; WANDB_MODE=offline keeps it in the run directory."""

    def __init__(self, target: LogTarget) -> None:
        wandb: Any = optional_import("wandb", "wandb")
        self._run = wandb.init(
            project="lookalike", name=target.name, dir=target.folder, config=target.settings
        )

    def write(self, kind: Kind, step: int, values: Mapping[str, float]) -> None:
        self._run.log({"steps": step, **{f"{kind}/{name}": value for name, value in values.items()}})

    def close(self) -> None:
        self._run.finish()


LOGGERS: dict[str, type[CsvLogger] | type[TensorBoardLogger] | type[WandbLogger]] = {
    "csv": CsvLogger,
    "tensorboard": TensorBoardLogger,
    "wandb": WandbLogger,
}
_PACKAGES = ("tensorboard", "wandb")


def check_loggers(names: Iterable[str]) -> None:
    """Refuses unknown loggers, and those whose package is missing, before anything is computed.

    Raises:
        UnknownNameError: no logger of this name.
        MissingExtraError: its package is not installed.
    """
    for name in names:
        look_up(LOGGERS, name, "logger")
        if name in _PACKAGES:
            optional_import(name, name)


def _keep_rows(file: Path, steps_done: int) -> None:
    """Drops rows of later steps, which an interrupted run had begun, and all rows of an earlier run."""
    if not file.exists():
        return
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    steps = [line.partition(",")[0] for line in lines]
    kept = [
        line
        for line, step in zip(lines, steps, strict=True)
        if line.endswith("\n") and (not step.isdigit() or int(step) <= steps_done)
    ]
    write_text(file, "".join(kept) if steps_done else "")
