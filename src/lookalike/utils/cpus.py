"""The processor's abilities, and limits of this process: CPUs by affinity, container and ranks; open files; memory."""

import contextlib
import math
import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

from lookalike.errors import FileError, first_line

CGROUP = Path("/sys/fs/cgroup")
CPU_FACTS = Path("/proc/cpuinfo")
BFLOAT16_FLAGS = {"amx_bf16", "avx512_bf16", "bf16"}
"""What Linux calls instructions that multiply bfloat16: those of Intel and AMD, and of ARM."""
SHARED_MEMORY = Path("/dev/shm")
LEAST_SHARED_MEMORY = 1 << 20
BUS_ERROR = -getattr(signal, "SIGBUS", 1 << 16)
"""Exit code of a process that found shared memory full; Windows has no such signal."""
OOM_SCORE, END_FIRST = Path("/proc/self/oom_score_adj"), 800
_MORE_SHARED_MEMORY = (
    "decoding processes have too little shared memory (/dev/shm); set data.workers=0, or give the container more, such "
    "as docker run --shm-size=1g"
)


def available_cpus(cgroup: Path = CGROUP) -> int:
    """CPUs that this process may use, at least 1: its affinity or its container's quota, divided by the ranks here."""
    cpus = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    quota = _quota(cgroup)
    if quota is not None:
        cpus = min(cpus, quota)
    ranks = int(os.environ.get("LOCAL_WORLD_SIZE") or 1)
    return max(1, math.floor(cpus / ranks))


def _quota(cgroup: Path) -> float | None:
    """CPUs that the container's quota allows: cgroup version 2, or version 1; None without a quota."""
    try:
        quota, period = (cgroup / "cpu.max").read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        try:
            quota = (cgroup / "cpu" / "cpu.cfs_quota_us").read_text(encoding="utf-8").strip()
            period = (cgroup / "cpu" / "cpu.cfs_period_us").read_text(encoding="utf-8").strip()
        except OSError:
            return None
    if quota == "max" or int(quota) <= 0:
        return None
    return max(1.0, int(quota) / int(period))


def multiplies_bfloat16(facts: Path = CPU_FACTS) -> bool:
    """Whether the processor multiplies bfloat16 by instructions of its own; False where Linux does not say so."""
    return not BFLOAT16_FLAGS.isdisjoint(_first_line(facts, "flags", "Features").split())


def processor_name(facts: Path = CPU_FACTS) -> str:
    """Such as "Intel(R) Xeon(R) Processor"; empty where Linux does not say it."""
    return _first_line(facts, "model name").partition(":")[2].strip()


def _first_line(facts: Path, *starts: str) -> str:
    try:
        lines = facts.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.startswith(starts)), "")


def check_open_files(count: int) -> None:
    """Refuses work that needs `count` more open files than the process may have.

    Raises:
        FileError: with the limit to raise.
    """
    opened: list[int] = []
    try:
        for _ in range(count):
            opened.append(os.open(os.devnull, os.O_RDONLY))  # noqa: PERF401 - those before a failure are closed
    except OSError as error:
        raise FileError(
            f"decoding processes need about {count} open files more than this process may have; raise the limit "
            "(ulimit -n) or set data.workers=0"
        ) from error
    finally:
        for number in opened:
            os.close(number)


def check_shared_memory(place: Path = SHARED_MEMORY) -> None:
    """Refuses to start processes where shared memory has no room for one small batch; a later lack ends them.

    Raises:
        FileError: with the remedy.
    """
    if place.is_dir() and shutil.disk_usage(place).free < LEAST_SHARED_MEMORY:
        raise FileError(_MORE_SHARED_MEMORY)


def end_this_process_first(worker: int = 0) -> None:
    """Asks Linux to end this process first where memory runs out, so that the main process can say what to change."""
    with contextlib.suppress(OSError):
        score = max(END_FIRST, int(OOM_SCORE.read_text(encoding="utf-8")))
        OOM_SCORE.write_text(str(score), encoding="utf-8")


def why_workers_ended(exit_codes: Sequence[int], error: BaseException) -> str | None:
    """What to say of decoding processes that ended with `exit_codes`, when `error` was raised; None if that is all."""
    if BUS_ERROR in exit_codes or "shared memory" in str(error):
        return f"{_MORE_SHARED_MEMORY} ({first_line(error)})"
    if any(code > 0 for code in exit_codes):
        return (
            "a decoding process has failed, and its own message says why; a script has to begin its work under "
            f'`if __name__ == "__main__":` or set data.workers=0 ({first_line(error)})'
        )
    if any(exit_codes):
        return (
            "the system has ended a decoding process, most likely because memory ran out; set data.workers lower "
            f"or to 0 ({first_line(error)})"
        )
    return None
