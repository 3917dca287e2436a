"""What stays the same while a training run goes on."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from numpy.typing import NDArray

from lookalike.config.experiment import Experiment
from lookalike.config.schema import Mode
from lookalike.data.splits import Split
from lookalike.training.run_dir import RunDir
from lookalike.utils.distributed import Processes
from lookalike.utils.progress import Progress


@dataclass
class RunContext:
    """What stays the same while a run goes on; `seconds` grows phase by phase.

    `views` holds the opened caches by the digest of their table: what never trains has one result for a whole
    run, so images and weights are hashed once, not for each part and again for the refit.
    """

    experiment: Experiment
    split: Split
    run_dir: RunDir
    fabric: Fabric
    progress: Progress
    start_from: Path | None = None
    frozen_stages: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    views: dict[str, Callable[[int], NDArray[Any]]] = field(default_factory=dict)

    @property
    def mode(self) -> Mode:
        """The training mode, which a resolved experiment always has."""
        mode = self.experiment.train.mode
        assert mode is not None
        return mode

    @property
    def processes(self) -> Processes:
        """Those that train together; the one of rank 0 writes."""
        return Processes.all()

    @property
    def is_main_process(self) -> bool:
        """Whether this process is the one that writes."""
        return self.processes.rank == 0

    def choose(self, name: str, value: object) -> None:
        """Writes a setting that the run itself decided into the experiment, here and in the run directory."""
        self.experiment = self.experiment.override([f"{name}={value}"])
        if self.is_main_process:
            self.experiment.save(self.run_dir.path / "experiment.yaml")

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Adds the time inside to the phase's seconds."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[phase] = round(self.seconds.get(phase, 0.0) + time.monotonic() - began, 2)
