"""The page of figures about faults, from the stored results."""

import os
import platform
import subprocess
from typing import Any

INTRODUCTION = """# Faults

What was lost when commands were interrupted, disks were full and processes died. Every figure is of a small network
on a CPU (`test_resnet`, 32 px, 20 classes of 8 drawn images, 3 epochs and a refit), so that a trial takes a second or
two and many moments are tried; what is written, in which order, does not depend on the size. Measured with
`python -m benchmarks.faults`, which also runs at a small scale in the tests; raw numbers in
[faults.json](faults.json).

## Interruptions

Each trial interrupts a command up to three times at random moments (SIGKILL, SIGTERM or Ctrl-C), gives the next
command a person would give (`--resume`, or the same again), and compares with an uninterrupted one: model, result,
log, training state, vectors, files or results have to be the same bit for bit (vectors of an index to 1e-5, since
a resumed index embeds other batches), seconds may only grow, and no temporary file may be left. A full disk is
a limit on the size of files, drawn at random.

| fault | injected | resumed | begun again | lost | measured |
|---|---|---|---|---|---|
"""
MEMORY = """
## Memory over long runs

Resident megabytes after a tenth of the work and at the end; the full lengths are 20,000 steps, 10,000 queries and
1,000 updates; what is shorter was measured with `--share`. Every update of an index replaces one image, while
another reader has it open.

| run | length | after a tenth | at the end | growth | measured |
|---|---|---|---|---|---|
"""


def page(stored: dict[str, dict[str, Any]]) -> str:
    """The page, as Markdown."""
    faults = [row for row in stored.values() if "injected" in row]
    growths = [row for row in stored.values() if "begin" in row]
    lines = [
        f"| {row['name']} | {row['injected']} | {row['resumed']} | {row['begun_again']} | {_lost(row)} | {_when(row)} |"
        for row in faults
    ]
    memory = [
        f"| {row['name']} | {row['steps']:,} | {row['begin']:.0f} | {row['end']:.0f} | "
        f"{100 * (row['end'] / row['begin'] - 1):+.1f} % | {_when(row)} |"
        for row in growths
    ]
    machines = sorted({row["machine"] for row in stored.values()})
    parts = [INTRODUCTION + "\n".join(lines), *([MEMORY + "\n".join(memory)] if memory else [])]
    return "\n".join([*parts, "", f"Machine: {'; '.join(machines)}."]) + "\n"


def _lost(row: dict[str, Any]) -> str:
    return "; ".join(sorted(set(row["problems"]))).replace("\n", " ").replace("|", "/") or "nothing"


def _when(row: dict[str, Any]) -> str:
    return f"{row['date']}, {row['commit']}"


def revision() -> str:
    """The commit, with a + if files differ from it."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty=+"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def machine() -> str:
    """Processor, cores and Python."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            model = next(line.partition(":")[2].strip() for line in stream if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"
