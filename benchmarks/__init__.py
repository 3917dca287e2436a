"""Measurements beside the arithmetic floor and beside other libraries, each in a process of its own."""

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]
"""(2,): by the wall clock, and of the processor."""


def clock() -> Seconds:
    """The time now, of this process alone."""
    return np.array([time.perf_counter(), time.process_time()])


def reset_peak() -> None:
    """Makes `peak_bytes` forget what was before (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """Largest resident memory of this process since it began or `reset_peak`."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024
