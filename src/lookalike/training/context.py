"""The facts of a training run, which do not change while it runs: how it is executed, what it is, and its clock."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lightning_fabric import Fabric

from lookalike.config.experiment import Experiment
from lookalike.config.schema import Mode
from lookalike.data.splits import Split
from lookalike.training.run_dir import RunDir
from lookalike.utils.distributed import Processes
from lookalike.utils.progress import Progress


@dataclass(frozen=True)
class RunOptions:
    """Where a run computes and what it reports; no number depends on it.

    Attributes:
        device: "auto" (a GPU if there is one), "cpu", "cuda" or "mps".
        devices: processes that train together, each with its share of every batch. Under `torchrun` its processes
            are used.
        log_to: where the numbers of each step go, besides the run directory: "csv", "tensorboard", "wandb".
        progress: what reports phases, lines and warnings; silent by default.
    """

    device: str = "auto"
    devices: int = 1
    log_to: Sequence[str] = ()
    progress: Progress = field(default_factory=Progress)


class PhaseClock:
    """Seconds per phase of a run, summed over the sessions of a run that was resumed."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._earlier: dict[str, float] = {}
        self._now: dict[str, float] = {}

    def continue_from(self, seconds: dict[str, float]) -> None:
        """Adds to what `seconds` returned in an earlier session."""
        self._earlier = dict(seconds)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the time inside to the phase."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._now[name] = self._now.get(name, 0.0) + time.monotonic() - began

    def seconds(self) -> dict[str, float]:
        """Seconds per phase so far, and `total`."""
        now = {**self._now, "total": time.monotonic() - self._began}
        names = [*self._earlier, *(name for name in now if name not in self._earlier)]
        return {name: round(self._earlier.get(name, 0.0) + now.get(name, 0.0), 2) for name in names}


@dataclass(frozen=True)
class RunContext:
    """What a run is: its settings, its images, where it runs, where it writes and reports.

    Attributes:
        experiment: resolved, without a None that matters.
        start_from: the run directory whose model training starts from.
        log_to: loggers of each step, of `loggers.LOGGERS`.
    """

    experiment: Experiment
    split: Split
    run_dir: RunDir
    fabric: Fabric
    progress: Progress
    start_from: Path | None = None
    clock: PhaseClock = field(default_factory=PhaseClock)
    log_to: tuple[str, ...] = ()

    @property
    def mode(self) -> Mode:
        """The training mode, which a resolved experiment always has."""
        mode = self.experiment.train.mode
        assert mode is not None
        return mode

    @property
    def processes(self) -> Processes:
        """The processes that train together; the one of rank 0 writes."""
        return Processes.all()

    @property
    def is_main_process(self) -> bool:
        """Whether this process is the one that writes."""
        return self.processes.rank == 0
