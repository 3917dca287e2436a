"""What this process may use: CPUs by affinity, container and ranks; open files."""

import math
import os
from pathlib import Path

from lookalike.errors import FileError

CGROUP = Path("/sys/fs/cgroup")


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
