"""Threads return results in order, and run a few items ahead."""

import sys
import threading
import time

import pytest

from lookalike.utils.threads import AHEAD, in_threads, thread_count


@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_threads_keep_the_order(count, threads):
    def late_if_even(row):
        time.sleep(0.002 * (row % 2 == 0))
        return row * row

    assert list(in_threads(late_if_even, range(count))) == [row * row for row in range(count)]


def test_threads_read_a_few_rows_ahead_and_no_more(threads):
    seen = []
    results = in_threads(seen.append, range(1000))
    next(results)
    results.close()
    assert sorted(seen) == list(range(AHEAD * threads + 1))


def test_as_many_threads_decode_as_torch_computes_with(threads):
    names, together = set(), threading.Barrier(threads, timeout=120)

    def look(row):
        names.add(threading.current_thread().name)
        together.wait()

    list(in_threads(look, range(4 * threads)))
    assert len(names) == threads


def test_without_torch_the_environment_decides(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr("lookalike.utils.threads.available_cpus", lambda: 6)
    for value, count in [("3", 3), ("", 6), ("0", 6), ("4,2", 6)]:
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert thread_count() == count
