"""Commands that are started, interrupted and waited for, each in one process or in several that train together.

They are forked from a server that has imported the package, so that most of a trial is the command's own work.
Several processes are started as torchrun starts them, with the same variables and without its agent.
"""

import multiprocessing
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

Prepare = Callable[[], object]
"""Called in the process before the command, such as to change the package; pickled by its name."""


@dataclass(frozen=True)
class Running:
    """The processes of a command and the files with what they print."""

    processes: list[BaseProcess]
    printed: list[Path]

    def send(self, kind: signal.Signals, *ranks: int) -> int:
        """Sends a signal to the processes (all without `ranks`) that still run; returns to how many."""
        chosen = [self.processes[rank] for rank in ranks] if ranks else self.processes
        alive = [process.pid for process in chosen if process.is_alive() and process.pid is not None]
        for pid in alive:
            os.kill(pid, kind)
        return len(alive)

    def wait(self, seconds: float | None = None, *, like_torchrun: bool = False) -> tuple[list[int], str]:
        """Exit codes and what was printed, in order of rank.

        Args:
            like_torchrun: kill what runs on after so many seconds, as torchrun's agent does with processes that wait
                for one that has ended.

        Raises:
            TimeoutError: a process runs on after so many seconds; it is killed.
        """
        until = None if seconds is None else time.monotonic() + seconds
        for process in self.processes:
            process.join(None if until is None else max(0.0, until - time.monotonic()))
        if self.send(signal.SIGKILL) and not like_torchrun:
            raise TimeoutError(f"still running after {seconds} s: {self.text()}")
        for process in self.processes:
            process.join()
        return [process.exitcode or 0 for process in self.processes], self.text()

    def text(self) -> str:
        """What was printed so far."""
        return "".join(file.read_text(encoding="utf-8") for file in self.printed if file.exists())


PRELOADED = ["lookalike.cli", "lookalike.training.fit", "lookalike.reporting.report", "lookalike.studies.run"]


def fork_server() -> ForkServerContext:
    """Starts processes by forking one that has imported the package; the first caller decides what that imports."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


class Commands:
    """Starts commands in `folder`, with a cache there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._context = fork_server()
        self._count = 0
        self._started: list[Running] = []

    def end(self) -> None:
        """Kills what was started and still runs, as after a test that failed."""
        for running in self._started:
            running.send(signal.SIGKILL)

    def start(
        self,
        *words: str,
        ranks: int = 1,
        most_bytes: int | None = None,
        prepare: Prepare | None = None,
        **variables: str,
    ) -> Running:
        """Starts a command in `ranks` processes; `most_bytes` limits the size of its files, as a full disk would."""
        self._count += 1
        launched: list[dict[str, str]] = [{}]
        if ranks > 1:
            launched = torchrun_variables(ranks)
        processes, files = [], []
        for rank, own in enumerate(launched):
            files.append(self.folder / f"printed-{self._count}-{rank}.txt")
            arguments = (words, self.folder, files[-1], most_bytes, prepare, {**variables, **own})
            processes.append(self._context.Process(target=_command, args=arguments))
            processes[-1].start()
        while not all(file.exists() or not p.is_alive() for file, p in zip(files, processes, strict=True)):
            time.sleep(0.001)  # a signal before the command has begun says nothing about it
        self._started.append(Running(list(processes), files))
        return self._started[-1]

    def run(self, *words: str, ranks: int = 1, most_bytes: int | None = None) -> tuple[int, str]:
        """Exit code and output of a command."""
        codes, printed = self.start(*words, ranks=ranks, most_bytes=most_bytes).wait()
        return next((code for code in codes if code != 0), 0), printed


def torchrun_variables(ranks: int) -> list[dict[str, str]]:
    """The environment of each process of one machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    same = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1"}
    same |= {"MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "faults", "GROUP_RANK": "0"}
    return [{**same, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]


def _command(
    words: tuple[str, ...],
    folder: Path,
    printed: Path,
    most_bytes: int | None,
    prepare: Prepare | None,
    variables: dict[str, str],
) -> None:
    """The command line, as `lookalike.__main__` runs it."""
    os.chdir(folder)
    os.environ.update({"LOOKALIKE_CACHE": str(folder / "cache"), **variables})
    import torch

    from lookalike.__main__ import take_interrupts
    from lookalike.cli import run

    torch.set_num_threads(1)
    take_interrupts()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with printed.open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    if most_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    if prepare is not None:
        prepare()
    sys.exit(run(list(words)))
