"""Interrupts commands at random moments, gives the next command, and compares with an uninterrupted one."""

import random
import shutil
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.faults.commands import Commands
from benchmarks.faults.compare import differences, leftovers, run_traces, seconds_so_far
from benchmarks.faults.jobs import Job

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
Seconds = float


@dataclass
class Tally:
    """What happened in the trials of one kind."""

    name: str
    injected: int = 0
    resumed: int = 0
    begun_again: int = 0
    problems: list[str] = field(default_factory=list)

    def expect(self, holds: bool, problem: str) -> None:
        """Notes a problem unless something holds."""
        if not holds:
            self.problems.append(problem[-400:])


def run_or_raise(commands: Commands, *words: str, ranks: int = 1) -> None:
    """Runs a command that nothing interrupts.

    Raises:
        RuntimeError: it fails.
    """
    code, printed = commands.run(*words, ranks=ranks)
    if code != 0:
        raise RuntimeError(f"{' '.join(words)}: {printed}")


def measure(commands: Commands, job: Job) -> Seconds:
    """How long a job takes the second time, when the server runs and the cache is full."""
    for words in job.before:
        run_or_raise(commands, *words)
    for _ in range(2):
        remove(commands.folder / job.makes)
        began = time.monotonic()
        run_or_raise(commands, *job.words, ranks=job.ranks)
    return time.monotonic() - began


def remove(path: Path) -> None:
    """Removes a file or a folder."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def kill_trials(commands: Commands, job: Job, *, kills: int, seed: int, until: float = float("inf")) -> Tally:
    """Interrupts a job until `kills` signals were sent, or the clock (`time.monotonic`) shows `until`."""
    tally, drawing, folder = Tally(job.name), random.Random(seed), commands.folder
    length = measure(commands, job)
    whole = job.found(folder)
    while tally.injected < kills and time.monotonic() < until:
        remove(folder / job.makes)
        if drawing.random() < 0.5:
            remove(folder / "cache")
        words, kind, counted = job.words, drawing.choice(SIGNALS), seconds_so_far(folder / job.makes)
        for _ in range(drawing.randint(1, 3)):
            running = commands.start(*words, ranks=job.ranks)
            time.sleep(drawing.random() * length)
            tally.injected += min(1, running.send(kind))
            ended = running.wait(30, like_torchrun=True) if job.ranks > 1 else running.wait(120)
            _check_end(tally, *ended, kind)
            before, counted = counted, seconds_so_far(folder / job.makes)
            tally.expect(_has_grown(before, counted), f"seconds went from {before} to {counted}")
            words = job.next_words(folder)
            tally.resumed += words != job.words
            tally.begun_again += words == job.words
        code, printed = commands.run(*words, ranks=job.ranks)
        if code != 0:
            tally.problems.append(f"the next command failed after {kind.name}: {printed.strip()[-300:]}")
            continue
        tally.problems += [f"differs: {part}" for part in differences(whole, job.found(folder))]
        tally.expect(_has_grown(counted, seconds_so_far(folder / job.makes)), "seconds were lost")
        tally.problems += [f"left: {file}" for file in leftovers(folder)]
    return tally


def _has_grown(before: dict[str, float], after: dict[str, float]) -> bool:
    """Whether no phase has lost seconds."""
    return all(0 <= seconds <= after.get(phase, 0.0) for phase, seconds in before.items())


def _check_end(tally: Tally, codes: list[int], printed: str, kind: signal.Signals) -> None:
    tally.expect("Traceback" not in printed, f"traceback after {kind.name}: {printed.strip()[-300:]}")
    for code in codes:
        tally.expect(code in (0, 1, -signal.SIGKILL), f"exit code {code} after {kind.name}")


def overwrite_trials(commands: Commands, first: Job, second: Job, *, kills: int, seed: int) -> Tally:
    """Interrupts trainings with --overwrite and other settings; the model there always fits its settings."""
    from lookalike.models.checkpoint import load_model
    from lookalike.training.run_dir import RunDir

    tally, drawing, run = Tally("train --overwrite"), random.Random(seed), commands.folder / "run"
    length = measure(commands, second)
    whole = run_traces(run)
    while tally.injected < kills:
        run_or_raise(commands, *first.words, "--overwrite")
        running = commands.start(*second.words, "--overwrite")
        time.sleep(drawing.random() * length)
        tally.injected += running.send(signal.SIGKILL)
        running.wait()
        if (run / "model.safetensors").exists():
            dim, asked = load_model(run)[0].embedding_dim, RunDir(run).experiment().model.embedding_dim
            tally.expect(dim == asked, f"a model of {dim} dimensions with settings for {asked}")
        tally.begun_again += 1
        code, printed = commands.run(*second.words, "--overwrite")
        tally.expect(code == 0, f"the next command failed: {printed.strip()}")
        tally.problems += [f"differs: {part}" for part in differences(whole, run_traces(run))]
    return tally


def disk_trials(commands: Commands, job: Job, *, limits: int, seed: int) -> Tally:
    """Limits the size of files, as a full disk would; each failure is one line, and the next command goes on."""
    tally, drawing, folder = Tally(f"full disk, {job.name}"), random.Random(seed), commands.folder
    measure(commands, job)
    whole, made = job.found(folder), [folder / job.makes, folder / "cache"]
    files = [file for path in made for file in (path.rglob("*") if path.is_dir() else [path])]
    largest = max(file.stat().st_size for file in files if file.is_file())
    for _ in range(limits):
        remove(folder / job.makes)
        remove(folder / "cache")
        limit = max(1, int(largest ** drawing.random()))
        code, printed = commands.run(*job.words, ranks=job.ranks, most_bytes=limit)
        tally.injected += code != 0
        kinds = ("error: ", "warning: not run: ")  # the second of a study, which names the row
        errors = [line for line in printed.splitlines() if line.startswith(kinds)]
        told = len(errors) == 1 and "Traceback" not in printed
        tally.expect(
            code == 0 or told or limit < 400, f"{limit} bytes: {printed.strip()}"
        )  # output has to fit, too
        words = job.next_words(folder)
        tally.resumed += words != job.words
        tally.begun_again += words == job.words
        code, printed = commands.run(*words, ranks=job.ranks)
        tally.expect(code == 0, f"the next command failed after {limit} bytes: {printed.strip()}")
        if code == 0:
            tally.problems += [f"differs: {part}" for part in differences(whole, job.found(folder))]
        tally.problems += [f"left: {file}" for file in leftovers(folder)]
    return tally
