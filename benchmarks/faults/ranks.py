"""A process that dies or hangs while several train: the others end soon, with a message."""

import os
import signal
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.faults.commands import Commands
from benchmarks.faults.compare import differences
from benchmarks.faults.interruptions import Tally, measure
from benchmarks.faults.jobs import Job

PATIENCE = 5.0
"""Seconds that the trials allow for an answer (LOOKALIKE_TIMEOUT); a minute is the default."""
SLACK = 60.0
"""Seconds more that a busy machine may take to notice."""
MESSAGE = "error: another process of this run has stopped or does not answer"
KILLED = "error: the system has killed this command, most likely because memory ran out; set batch.size "
"""What is said of a process that dies as one does where memory runs out: with settings to change."""


@dataclass(frozen=True)
class StopAt:
    """Makes process `rank` send itself a signal in its training step number `step`."""

    rank: int
    step: int
    kind: signal.Signals

    def __call__(self) -> None:
        """Changes the package in this process."""
        from lookalike.training.learner import Learner

        backward, taken = Learner.backward, 0

        def stopping(*arguments: Any, **keywords: Any) -> float:
            nonlocal taken
            taken += 1
            if os.environ["RANK"] == str(self.rank) and taken == self.step:
                os.kill(os.getpid(), self.kind)
            return backward(*arguments, **keywords)

        Learner.backward = stopping  # type: ignore[method-assign]


def rank_trials(commands: Commands, job: Job, *, rounds: int = 1) -> list[Tally]:
    """In each round each process dies and hangs; the other says so and ends, and the run continues to the same end."""
    measure(commands, job)
    whole, tallies = job.found(commands.folder), []
    for name, kind in (("a dead process", signal.SIGKILL), ("a hung process", signal.SIGSTOP)):
        tally = Tally(name)
        for trial in range(rounds * job.ranks):
            _one_trial(commands, job, StopAt(trial % job.ranks, 3 + trial // job.ranks, kind), whole, tally)
        tallies.append(tally)
    return tallies


def _one_trial(commands: Commands, job: Job, stop: StopAt, whole: dict[str, Any], tally: Tally) -> None:
    from benchmarks.faults.interruptions import remove

    remove(commands.folder / job.makes)
    running = commands.start(*job.words, ranks=job.ranks, prepare=stop, LOOKALIKE_TIMEOUT=str(PATIENCE))
    others = [process for rank, process in enumerate(running.processes) if rank != stop.rank]
    stopped = running.processes[stop.rank]
    while not _has_stopped(stopped.pid) and stopped.is_alive():
        time.sleep(0.02)
    tally.injected += 1
    began = time.monotonic()
    for process in others:
        process.join(PATIENCE + SLACK)
    seconds = time.monotonic() - began
    tally.expect(
        all(process.exitcode == 1 for process in others), f"the others still run after {seconds:.0f} s"
    )
    tally.expect(MESSAGE in running.text(), f"no message: {running.text()}")
    if stop.kind == signal.SIGKILL:
        while KILLED not in running.text() and time.monotonic() < began + PATIENCE + SLACK:
            time.sleep(0.1)
        tally.expect(running.text().count(KILLED) == 1, f"no setting is named: {running.text()}")
    running.send(signal.SIGKILL)
    running.wait()
    words = job.next_words(commands.folder)
    tally.resumed += words != job.words
    tally.begun_again += words == job.words
    code, printed = commands.run(*words, ranks=job.ranks)
    tally.expect(code == 0, f"the next command failed: {printed}")
    tally.problems += [f"differs: {part}" for part in differences(whole, job.found(commands.folder))]


def _has_stopped(pid: int | None) -> bool:
    """Whether a process is stopped by a signal (Linux)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
            return stream.read().rpartition(")")[2].split()[0] in ("T", "t", "Z", "X")
    except OSError:
        return True
