"""Images of a data set in batches: decoded by threads of this process, or by processes of their own.

Processes decode ahead of a network that trains, or that an accelerator runs. Where the CPU only embeds they
take a core away from a network whose threads all wait for the slowest; there it is faster to take turns: all
cores decode a batch, then all run the network (docs/benchmarks/README.md).
"""

import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from lookalike.data.image_dataset import ImageDataset
from lookalike.errors import LookalikeError, TrainingError
from lookalike.utils.cpus import (
    available_cpus,
    check_open_files,
    check_shared_memory,
    end_this_process_first,
    why_workers_ended,
)
from lookalike.utils.threads import in_threads

SLOW = 0.0015
"""Seconds for an image from which on several threads decode; the first of a batch takes some for cold caches."""
FILES_PER_WORKER = 16
"""Open files that a decoding process needs in this one: pipes, and the memory of batches under way."""


def decoding_workers(workers: int | None) -> int:
    """`workers` processes; None: one less than the CPUs of this process, at most 8."""
    return min(8, available_cpus() - 1) if workers is None else workers


def embedding_workers(workers: int | None, device: torch.device | str) -> int:
    """`decoding_workers` for a network that only embeds: None means none on a CPU."""
    return 0 if workers is None and torch.device(device).type == "cpu" else decoding_workers(workers)


def image_batches(
    dataset: ImageDataset, *, batch_size: int, workers: int, device: torch.device | str = "cpu"
) -> Iterator[Tensor]:
    """All images of `dataset` in order: uint8 (B, 3, S, S)."""
    rows = range(len(dataset))
    batches = (rows[at : at + batch_size] for at in range(0, len(rows), batch_size))
    for images, _labels in ImageLoader(dataset, workers, device=device).batches(batches):
        yield images


@contextmanager
def _handler_of_ended_children() -> Iterator[None]:
    """Keeps this process's handler of SIGCHLD. That of torch raises an error wherever the main thread is when a worker
    has ended, also where the command has said why and is ending; without it the next batch that is awaited fails."""
    if not hasattr(signal, "SIGCHLD") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGCHLD)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before)


class ImageLoader:
    """Batches of chosen images of a dataset.

    Worker processes live as long as this object. Forked again for each pass, they would each time share the
    memory of a process full of activations, every page of which is then copied when it is next written to: a
    second or more a pass (docs/benchmarks/README.md). One pass can be under way at a time.

    Args:
        workers: decoding processes; with 0 this process's threads decode.
        device: where the batches go next; only for a CUDA GPU is their memory pinned.
    """

    def __init__(self, dataset: ImageDataset, workers: int, *, device: torch.device | str = "cpu") -> None:
        self._dataset = dataset
        self._rows: list[list[int]] = []
        self._loader: DataLoader[Any] | None = None
        if workers:
            self._loader = DataLoader(
                dataset,
                batch_sampler=self._rows,
                num_workers=workers,
                persistent_workers=True,
                worker_init_fn=end_this_process_first,
                pin_memory=torch.device(device).type == "cuda",
                generator=torch.Generator(),  # or else a pass would move torch's own, the first unlike the others
            )

    def batches(self, rows: Iterable[Sequence[int]]) -> Iterator[tuple[Tensor, Tensor]]:
        """Images, uint8 (B, 3, S, S), and labels of each list of rows."""
        if self._loader is None:
            yield from self._in_this_process(rows)
            return
        self._rows[:] = map(list, rows)
        if self._loader is not None and self._loader._iterator is None:
            check_open_files(FILES_PER_WORKER * self._loader.num_workers)
            check_shared_memory()
        try:
            with _handler_of_ended_children():
                batches = iter(self._loader)
            for images, labels, _rows in batches:
                yield images, labels
        except LookalikeError:
            raise
        except (RuntimeError, OSError, EOFError) as error:
            why = why_workers_ended(self._exit_codes(error), error)
            raise error if why is None else TrainingError(why) from error

    def _exit_codes(self, error: Exception) -> list[int]:
        """Of the worker processes that have ended; a broken connection to one says that it is ending."""
        workers = getattr(self._loader and self._loader._iterator, "_workers", [])
        for worker in workers:
            worker.join(0 if isinstance(error, RuntimeError) else 1)
        return [worker.exitcode for worker in workers if worker.exitcode is not None]

    def close(self) -> None:
        """Ends the worker processes; the next pass starts new ones."""
        if self._loader is not None and self._loader._iterator is not None:
            self._loader._iterator._shutdown_workers()  # type: ignore[attr-defined]
            self._loader._iterator = None

    def _in_this_process(self, rows: Iterable[Sequence[int]]) -> Iterator[tuple[Tensor, Tensor]]:
        """Photos by all threads, small images one by one, since opening one mostly holds Python's lock. The first
        image of a batch decides."""
        look_up = self._dataset.__getitem__
        for first, *others in rows:
            began = time.perf_counter()
            one = look_up(first)
            slow = time.perf_counter() - began > SLOW
            rest = in_threads(look_up, others) if slow else map(look_up, others)
            images, labels, _rows = zip(one, *rest, strict=True)
            yield torch.stack(images), torch.tensor(labels)
