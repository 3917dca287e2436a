"""The numbers of each training step (loss, rates, gradient norm, images per second, memory), measured for loggers."""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from lookalike.optim.optimizers import Optimizers
from lookalike.training.loggers import LOGGERS, Kind, Logger, LogTarget


class StepLog:
    """Measures each optimizer step for the loggers; without loggers it does nothing."""

    def __init__(self, loggers: Sequence[Logger] = (), *, steps_done: int = 0) -> None:
        self._loggers = loggers
        self._step = steps_done
        self._began = 0.0
        self._gradient_norm = 0.0

    def begin_epoch(self) -> None:
        """Starts the clock."""
        self._began = time.perf_counter()

    def measure_gradients(self, optimizers: Optimizers) -> None:
        """Takes the norm of all gradients before they are clipped; of sharded proxies, those of this process."""
        if self._loggers:
            self._gradient_norm = gradient_norm(optimizers.parameters) / optimizers.scale

    def end_step(self, optimizers: Optimizers, loss: float, images: int, *, device: torch.device) -> None:
        """Hands on the numbers of the step."""
        self._step += 1
        if self._loggers:
            now = time.perf_counter()
            self._write(
                "step",
                {
                    "loss": loss,
                    **{f"lr_{group['name']}": group["lr"] for group in optimizers.groups},
                    "gradient_norm": self._gradient_norm,
                    "images_per_second": images / max(now - self._began, 1e-9),
                    "memory_gb": peak_memory_gb(device),
                },
            )
            self._began = now

    def end_epoch(self, record: Mapping[str, Any]) -> None:
        """Hands on what the epoch's record in log.jsonl says of validation."""
        if self._loggers and record["validation"]:
            self._write("epoch", {"epoch": record["epoch"], **record["validation"]})

    def _write(self, kind: Kind, values: Mapping[str, float]) -> None:
        for logger in self._loggers:
            logger.write(kind, self._step, values)


@contextmanager
def open_step_log(names: Sequence[str], target: LogTarget) -> Iterator[StepLog]:
    """The log of a stage to the named loggers, closed at the end whatever happens."""
    if names:
        target.folder.mkdir(parents=True, exist_ok=True)
    loggers: list[Logger] = [LOGGERS[name](target) for name in names]
    try:
        yield StepLog(loggers, steps_done=target.steps_done)
    finally:
        for logger in loggers:
            logger.close()


def gradient_norm(parameters: Iterable[Tensor]) -> float:
    """Euclidean norm of all gradients together, those of sparse ones included."""
    gradients = (parameter.grad for parameter in parameters if parameter.grad is not None)
    dense = [grad.coalesce().values() if grad.is_sparse else grad for grad in gradients]
    norms = [torch.linalg.vector_norm(grad.float()) for grad in dense]
    return float(torch.linalg.vector_norm(torch.stack(norms))) if norms else 0.0


def peak_memory_gb(device: torch.device) -> float:
    """Most memory that tensors took on a GPU, or else that this process took, in 10^9 bytes; NaN on Windows."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    if sys.platform == "win32":
        return float("nan")
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e9 if sys.platform == "darwin" else peak * 1024 / 1e9
