"""Collectives of the processes that train together, and the global batch with gradient.

A loss is a function of the whole batch, so embeddings and labels of all processes are put together before it
is called (`global_batch`), and every process computes the same number. Everything here is the identity in a
program that is not distributed, so one code path serves one process and many.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist

from lookalike.errors import TrainingError

PATIENCE = 24 * 3600.0
"""Seconds to wait for a process that works alone, such as one that computes cached activations."""
MEETING = 600.0
"""Seconds to wait until every process has started and read the data."""
PROMPT = 60.0
"""Seconds to wait in any other collective; `LOOKALIKE_TIMEOUT` changes it."""
_prompt_group: Any = None
_host_group: Any = None
_patient_group: Any = None

GONE = ("closed by peer", "reset by peer", "Broken pipe", "Timed out", "remote process exited")
"""What the transports of torch.distributed say when another process is no longer there."""


def use_short_timeouts() -> None:
    """Makes collectives give up after a minute, but for `barrier(patient=True)`; every process calls it."""
    global _prompt_group, _host_group, _patient_group
    prompt = timedelta(seconds=float(os.environ.get("LOOKALIKE_TIMEOUT") or PROMPT))
    _patient_group = dist.new_group(timeout=timedelta(seconds=PATIENCE), backend="gloo")
    _host_group = dist.new_group(timeout=prompt, backend="gloo")
    _prompt_group = dist.new_group(timeout=prompt)


def _group_for(x: Tensor) -> Any:
    """The group that transports `x`: NCCL, the backend of GPUs, takes no tensor in host memory."""
    return _host_group if x.device.type == "cpu" else _prompt_group


@contextmanager
def _with_others() -> Iterator[None]:
    """Around a collective.

    Raises:
        TrainingError: another process has stopped or does not answer.
    """
    try:
        yield
    except RuntimeError as error:
        if any(words in str(error) for words in GONE):
            raise TrainingError(
                "another process of this run has stopped or does not answer; its own message says why "
                "(where storage is slow, LOOKALIKE_TIMEOUT sets the seconds to wait for it)"
            ) from error
        raise


@dataclass(frozen=True)
class Processes:
    """A group of processes that work on one batch: this one is number `rank` of `size`."""

    rank: int = 0
    size: int = 1

    @classmethod
    def all(cls) -> "Processes":
        """Those of the default group of torch.distributed, or this one alone."""
        if dist.is_available() and dist.is_initialized():
            return cls(dist.get_rank(), dist.get_world_size())
        return cls()

    def share(self, count: int) -> tuple[int, int]:
        """First and end of this process's part of `count` things, cut as evenly as possible, in order."""
        return self.rank * count // self.size, (self.rank + 1) * count // self.size

    def for_count(self, count: int) -> "Processes":
        """These processes; if they are more than the `count` things to share, this one alone, which then does all."""
        return self if count >= self.size else Processes()

    def barrier(self, *, patient: bool = False) -> None:
        """Waits for every process; `patient`: for as long as one of them works alone."""
        if self.size > 1:
            with _with_others():
                dist.barrier(_patient_group if patient else _host_group)

    def sum_(self, x: Tensor) -> Tensor:
        """The sum of `x` over the processes, in place."""
        return self._reduce_(x, dist.ReduceOp.SUM)

    def maximum_(self, x: Tensor) -> Tensor:
        """The maximum of `x` over the processes, in place."""
        return self._reduce_(x, dist.ReduceOp.MAX)

    def _reduce_(self, x: Tensor, operation: Any) -> Tensor:
        if self.size > 1:
            with _with_others():
                dist.all_reduce(x, op=operation, group=_group_for(x))
        return x

    def gather(self, x: Tensor) -> Tensor:
        """The rows of all processes, in order of rank; each may have another number of rows."""
        if self.size == 1:
            return x
        counts = [torch.zeros(1, dtype=torch.int64, device=x.device) for _ in range(self.size)]
        with _with_others():
            dist.all_gather(counts, torch.tensor([len(x)], device=x.device), group=_group_for(x))
            sizes = [int(count) for count in counts]
            padded = x.new_zeros(max(sizes), *x.shape[1:])
            padded[: len(x)] = x
            parts = [torch.empty_like(padded) for _ in sizes]
            dist.all_gather(parts, padded, group=_group_for(x))
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])


class _GatherWithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, processes: Processes, factor: float) -> Tensor:
        whole = processes.gather(x)
        sizes = processes.gather(torch.tensor([len(x)], device=x.device))
        ctx.first = int(sizes[: processes.rank].sum())
        ctx.rows, ctx.factor = len(x), factor
        return whole

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        return grad_output[ctx.first : ctx.first + ctx.rows] * ctx.factor, None, None


def global_batch(
    embeddings: Tensor, labels: Tensor, *, processes: Processes | None = None, averaged: bool = True
) -> tuple[Tensor, Tensor]:
    """Embeddings and labels of all processes, in order of rank, the same on each; with gradient to own rows.

    Every process has to compute the whole loss of the result (the losses of this package do, with replicated
    and with sharded proxies). Then the gradient of an own row is complete, without a further exchange.

    Args:
        averaged: the gradients of the network will be averaged over processes, as DistributedDataParallel
            and Fabric do. The gradient of the global loss is their sum, so the gradients of own rows are
            multiplied by the number of processes here: the printed loss and the proxies' gradients, which
            are complete on each process and must not be summed, stay what they are. False when the network's
            gradients will be summed.
    """
    processes = processes or Processes.all()
    if processes.size == 1:
        return embeddings, labels
    factor = float(processes.size) if averaged else 1.0
    gathered: Tensor = _GatherWithGradient.apply(embeddings, processes, factor)
    return gathered, processes.gather(labels.to(embeddings.device))


@torch.no_grad()
def broadcast(module: nn.Module) -> None:
    """Makes parameters and buffers those of the main process, as DistributedDataParallel does when it starts."""
    if Processes.all().size > 1:
        with _with_others():
            for tensor in (*module.parameters(), *module.buffers()):
                dist.broadcast(tensor.detach(), src=0, group=_group_for(tensor))


def average_buffers(module: nn.Module) -> None:
    """Makes floating buffers, such as batch norm's running statistics, their mean over the processes."""
    processes = Processes.all()
    if processes.size > 1:
        for buffer in module.buffers():
            if buffer.is_floating_point():
                processes.sum_(buffer).div_(processes.size)
