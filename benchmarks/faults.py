"""Faults injected into trainings: signals at random moments, disks that fill up, two commands at once.

    python -m benchmarks.faults DATA [--kills 200] [--modes frozen partial finetune] [--json FILE] [--set NAME=VALUE]

Each trial interrupts a training one or more times, gives the next command a person would give (--resume, or the same
again), and compares what is left with an uninterrupted run: model, result, log and training state have to be the same
bit for bit, but for seconds, and no temporary file may stay. Every command is a process of its own, forked from a
server that has imported the package, so that most of a trial is training.
"""

import argparse
import json
import multiprocessing
import os
import platform
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

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


class Commands:
    """Starts commands in `folder`, each in its own process, with its own cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(
            ["lookalike.cli", "lookalike.training.fit", "lookalike.reporting.report"]
        )
        self._count = 0

    def start(self, *words: str, most_bytes: int | None = None) -> tuple[BaseProcess, Path]:
        """A running command, and the file with what it prints."""
        self._count += 1
        printed = self.folder / f"printed-{self._count}.txt"
        process = self._context.Process(target=_command, args=(words, self.folder, printed, most_bytes))
        process.start()
        return process, printed

    def run(self, *words: str, most_bytes: int | None = None) -> tuple[int, str]:
        """Exit code and output of a command."""
        process, printed = self.start(*words, most_bytes=most_bytes)
        process.join()
        return process.exitcode or 0, printed.read_text(encoding="utf-8")


def _command(words: tuple[str, ...], folder: Path, printed: Path, most_bytes: int | None) -> None:
    """The command line, as `lookalike.__main__` runs it."""
    os.chdir(folder)
    os.environ["LOOKALIKE_CACHE"] = str(folder / "cache")
    with printed.open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    import torch

    from lookalike.__main__ import interrupt
    from lookalike.cli import run

    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if most_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    sys.exit(run(list(words)))


def traces(run: Path) -> dict[str, Any]:
    """Everything of a finished run that has to be the same, without seconds."""
    from lookalike.training.tensor_tree import load_tree

    found: dict[str, Any] = {"model": (run / "model.safetensors").read_bytes()}
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    found["result"] = {key: value for key, value in result.items() if key != "seconds"}
    lines = map(json.loads, (run / "log.jsonl").read_text(encoding="utf-8").splitlines())
    found["log"] = [{key: value for key, value in line.items() if key != "seconds"} for line in lines]
    for file in sorted((run / "training_state").glob("*.json")):
        if file.stem in ("select", "refit"):
            tree = load_tree(file.with_suffix(""))
            for record in tree["history"]:
                del record["seconds"]
            found[file.stem] = _bytes(tree)
    return found


def _bytes(node: Any) -> Any:
    """The tree with the bytes of each tensor."""
    if hasattr(node, "numpy"):
        return node.contiguous().numpy().tobytes()
    if isinstance(node, dict):
        return {key: _bytes(value) for key, value in node.items()}
    return [_bytes(value) for value in node] if isinstance(node, list) else node


def temporaries(folder: Path) -> list[str]:
    """Temporary files that are left."""
    return [str(file.relative_to(folder)) for file in folder.rglob("*.tmp")]


def differences(whole: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The parts of two runs that differ."""
    return [part for part in whole.keys() | other.keys() if whole.get(part) != other.get(part)]


def next_command(run: Path) -> list[str]:
    """What a person gives after an interruption: --resume where there is a run."""
    return ["--resume"] if (run / "experiment.yaml").exists() else []


def seconds_of(commands: Commands, *words: str) -> Seconds:
    """How long a command takes the second time, when the server runs and the cache is full."""
    for _ in range(2):
        began = time.monotonic()
        code, printed = commands.run(*words)
        if code != 0:
            raise RuntimeError(printed)
    return time.monotonic() - began


def kill_trials(
    commands: Commands, data: str, settings: list[str], *, kills: int, seed: int, name: str
) -> Tally:
    """Interrupts runs at random moments until `kills` signals were sent."""
    tally, drawing = Tally(name), random.Random(seed)
    train = ["train", data, "--quiet"]
    length = seconds_of(commands, *train, "--out", "whole", "--overwrite", *settings)
    whole, run = traces(commands.folder / "whole"), commands.folder / "run"
    while tally.injected < kills:
        shutil.rmtree(run, ignore_errors=True)
        if drawing.random() < 0.5:
            shutil.rmtree(commands.folder / "cache", ignore_errors=True)
        words, kind = [*train, "--out", "run", *settings], drawing.choice(SIGNALS)
        for _ in range(drawing.randint(1, 3)):
            process, file = commands.start(*words)
            time.sleep(drawing.random() * length)
            if process.is_alive() and process.pid is not None:
                os.kill(process.pid, kind)
                tally.injected += 1
            process.join()
            _check_end(tally, process.exitcode or 0, file.read_text(encoding="utf-8"), kind)
            more = next_command(run)
            tally.resumed += bool(more)
            tally.begun_again += not more
            words = [*train, "--out", "run", *(more or settings)]
        code, printed = commands.run(*words)
        if code != 0:
            tally.problems.append(f"the next command failed: {printed.strip()[-300:]}")
            continue
        tally.problems += [f"differs: {part}" for part in differences(whole, traces(run))]
        tally.problems += [f"left: {file}" for file in temporaries(commands.folder)]
    return tally


def _check_end(tally: Tally, code: int, printed: str, kind: signal.Signals) -> None:
    if "Traceback" in printed:
        tally.problems.append(f"traceback after {kind.name}: {printed.strip()[-300:]}")
    if code not in (0, 1, -signal.SIGKILL):
        tally.problems.append(f"exit code {code} after {kind.name}")


def overwrite_trials(
    commands: Commands, data: str, settings: list[str], other: list[str], *, kills: int, seed: int
) -> Tally:
    """Interrupts runs with --overwrite and other settings; the model in the folder always fits its settings."""
    from lookalike.models.checkpoint import load_model
    from lookalike.training.run_dir import RunDir

    tally, drawing = Tally("overwrite"), random.Random(seed)
    first = ["train", data, "--quiet", "--out", "run", "--overwrite"]
    length = seconds_of(commands, *first, *other)
    whole, run = traces(commands.folder / "run"), commands.folder / "run"
    while tally.injected < kills:
        commands.run(*first, *settings)
        process, _ = commands.start(*first, *other)
        time.sleep(drawing.random() * length)
        if process.is_alive() and process.pid is not None:
            os.kill(process.pid, signal.SIGKILL)
            tally.injected += 1
        process.join()
        if (run / "model.safetensors").exists():
            dim, asked = load_model(run)[0].embedding_dim, RunDir(run).experiment().model.embedding_dim
            if dim != asked:
                tally.problems.append(f"a model of {dim} dimensions with settings for {asked}")
        tally.begun_again += 1
        code, printed = commands.run(*first, *other)
        if code != 0:
            tally.problems.append(f"the next command failed: {printed.strip()[-300:]}")
            continue
        tally.problems += [f"differs: {part}" for part in differences(whole, traces(run))]
    return tally


def disk_trials(commands: Commands, data: str, settings: list[str], *, limits: int, seed: int) -> Tally:
    """Limits the size of files, as a full disk would; each failure is one line, and the next command goes on."""
    tally, drawing = Tally("full disk"), random.Random(seed)
    train = ["train", data, "--quiet"]
    code, printed = commands.run(*train, "--out", "whole", *settings)
    if code != 0:
        raise RuntimeError(printed)
    whole, run = traces(commands.folder / "whole"), commands.folder / "run"
    largest = max(file.stat().st_size for file in commands.folder.rglob("*") if file.is_file())
    for _ in range(limits):
        shutil.rmtree(run, ignore_errors=True)
        shutil.rmtree(commands.folder / "cache", ignore_errors=True)
        limit = int(largest ** drawing.random())
        code, printed = commands.run(*train, "--out", "run", *settings, most_bytes=max(1, limit))
        tally.injected += code != 0
        errors = [line for line in printed.splitlines() if line.startswith("error: ")]
        if (
            code != 0 and limit > 200 and (len(errors) != 1 or "Traceback" in printed)
        ):  # the output has to fit, too
            tally.problems.append(f"{limit} bytes: {printed.strip()[-300:]}")
        more = next_command(run)
        tally.resumed += bool(more)
        tally.begun_again += not more
        code, printed = commands.run(*train, "--out", "run", *(more or settings))
        if code != 0:
            tally.problems.append(f"the next command failed after {limit} bytes: {printed.strip()[-300:]}")
            continue
        tally.problems += [f"differs: {part}" for part in differences(whole, traces(run))]
        tally.problems += [f"left: {file}" for file in temporaries(commands.folder)]
    return tally


def main() -> None:
    """Prints one row per kind of fault, and exits with 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--modes", nargs="*", default=["frozen", "partial", "finetune"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    options = parser.parse_args()
    data = str(Path(options.data).resolve()) if Path(options.data).exists() else options.data
    words = [word for setting in options.settings for word in ("--set", setting)]
    tallies = []
    for mode in options.modes:
        with tempfile.TemporaryDirectory() as folder:
            settings = [*words, "--set", f"train.mode={mode}"]
            commands = Commands(Path(folder))
            share = -(-options.kills // len(options.modes))
            tallies.append(
                kill_trials(commands, data, settings, kills=share, seed=options.seed, name=f"signals, {mode}")
            )
    quick = [*words, "--set", "train.mode=frozen"]
    with tempfile.TemporaryDirectory() as folder:
        other = [*quick, "--set", "model.embedding_dim=4"]
        kills = max(1, options.kills // 5)
        tallies.append(
            overwrite_trials(Commands(Path(folder)), data, quick, other, kills=kills, seed=options.seed)
        )
    with tempfile.TemporaryDirectory() as folder:
        limits = max(1, options.kills // 5)
        tallies.append(disk_trials(Commands(Path(folder)), data, quick, limits=limits, seed=options.seed))
    print("| fault | injected | resumed | begun again | lost |\n|---|---|---|---|---|")
    for tally in tallies:
        lost = "nothing" if not tally.problems else "; ".join(sorted(set(tally.problems)))
        print(f"| {tally.name} | {tally.injected} | {tally.resumed} | {tally.begun_again} | {lost} |")
    if options.json:
        facts = {"machine": platform.platform(), "python": platform.python_version(), "seed": options.seed}
        text = json.dumps({**facts, "faults": [asdict(tally) for tally in tallies]}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    sys.exit(any(tally.problems for tally in tallies))


if __name__ == "__main__":
    main()
