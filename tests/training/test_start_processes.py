"""Processes that --devices starts: none runs on alone, whichever of them stops first, also before they have met."""

import subprocess
import sys

import pytest

PROGRAM = """
import os, time
from lookalike.training import start_processes as starting

starting.GRACE = 0
starting.end_with_main_process()
if "RANK" not in os.environ:
    starting.start_processes(2)
if os.environ["RANK"] == "{rank}":
    time.sleep(0.5)
    os.kill(os.getpid(), 9)
assert os.environ["WORLD_SIZE"] == "2"
time.sleep(60)
"""


@pytest.mark.parametrize(("rank", "stopped"), [(0, "the main process"), (1, "process 1")])
def test_a_process_that_stops_ends_the_other_with_a_message(rank, stopped):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(rank=rank)], capture_output=True, text=True, timeout=50
    )
    assert done.stderr == f"error: {stopped} of this run has stopped; its own message says why\n"
