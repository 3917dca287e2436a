"""Starts the processes of `--devices` with the variables of torchrun; where one stops, the others do not run on."""

import os
import socket
import subprocess
import sys
import time
from threading import Thread

import torch

from lookalike.utils.cpus import available_cpus
from lookalike.utils.killed import end_process

GRACE = 20.0
"""Seconds in which the main process mostly finds by itself that another has stopped."""
_MAIN = "LOOKALIKE_MAIN_PROCESS"


def start_processes(count: int) -> None:
    """Makes this process the first of `count`, and starts the others with its command."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    os.environ |= {
        "TORCHELASTIC_RUN_ID": str(os.getpid()),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "GROUP_RANK": "0",
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "RANK": "0",
        "LOCAL_RANK": "0",
    }
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(available_cpus())
    for rank in range(1, count):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), _MAIN: str(os.getpid())}
        own["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", str(available_cpus()))
        process = subprocess.Popen(
            [sys.executable, *sys.orig_argv[1:]], stdin=subprocess.DEVNULL, env={**os.environ, **own}
        )
        Thread(target=_end_after, args=(process, rank), daemon=True).start()


def end_with_main_process() -> None:
    """In a process that `start_processes` has started: ends it when the main process has ended.

    Until all processes have met, nothing else would; torchrun has an agent for it.
    """
    if main := os.environ.get(_MAIN):
        Thread(target=_end_without, args=(int(main),), daemon=True).start()


def _end_after(process: "subprocess.Popen[bytes]", rank: int) -> None:
    if process.wait() != 0:
        time.sleep(GRACE)
        end_process(f"process {rank} of this run has stopped; its own message says why")


def _end_without(main: int) -> None:
    while os.getppid() == main:
        time.sleep(1)
    end_process("the main process of this run has stopped; its own message says why")
