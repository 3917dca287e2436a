"""`in_threads`: a function of many things at once, in the threads that this process may use."""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from lookalike.utils.cpus import available_cpus

Item = TypeVar("Item")
Result = TypeVar("Result")
AHEAD = 2
"""Results of a thread that wait to be taken; decoded photos are large."""


def thread_count() -> int:
    """Threads to decode with: as many as torch computes with where it is loaded, else OMP_NUM_THREADS or the CPUs."""
    if "torch" in sys.modules:
        return int(sys.modules["torch"].get_num_threads())
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) > 0 else available_cpus()


def in_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """`function` of every item, in order, in `thread_count()` threads, which keep a few results ahead."""
    threads = thread_count()
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > AHEAD * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
