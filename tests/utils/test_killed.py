"""A process that is killed is spoken for; one that ends by itself, in whatever way, is not."""

import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys
from lookalike.utils.killed import end_process, say_if_killed

with say_if_killed("error: killed; set batch.size lower"):
    {what}
"""
ENDS = {
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", "error: killed; set batch.size lower\n"),
    "returns": ("pass", ""),
    "exits": ("sys.exit(1)", ""),
    "interrupted": ("os.kill(os.getpid(), signal.SIGINT)", None),
    "fails": ("raise OSError", None),
    "ends itself": ("end_process('stopped')", "error: stopped\n"),
    "a forked child is killed": ("if os.fork() == 0: os.kill(os.getpid(), signal.SIGKILL)", ""),
}
"""What the process does, and what it prints; None: what Python prints of an exception."""


@pytest.mark.parametrize("name", ENDS)
def test_only_a_killed_process_is_spoken_for(name):
    what, printed = ENDS[name]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(what=what)], capture_output=True, text=True, timeout=60
    )
    assert "set batch.size lower" not in done.stderr if printed is None else done.stderr == printed


def test_a_machine_without_a_shell_says_nothing():
    program = PROGRAM.format(what="print('worked')")
    done = subprocess.run(
        [sys.executable, "-c", f"import os; os.environ['PATH'] = ''\n{program}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("worked\n", "")
