"""CPUs are those that the process may use, not those of the machine."""

import os
import re
from types import SimpleNamespace

import pytest

from lookalike.data.dataloader import decoding_workers
from lookalike.errors import FileError
from lookalike.utils import cpus
from lookalike.utils.cpus import available_cpus, multiplies_bfloat16, processor_name


@pytest.fixture(autouse=True)
def _eight(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)


@pytest.mark.parametrize(
    ("files", "ranks", "count"),
    [
        ({}, None, 8),
        ({"cpu.max": "max 100000"}, None, 8),
        ({"cpu.max": "250000 100000"}, None, 2),
        ({"cpu.max": "50000 100000"}, None, 1),
        ({"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, None, 4),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None, 8),
        ({}, "4", 2),
        ({"cpu.max": "400000 100000"}, "8", 1),
    ],
)
def test_affinity_quota_and_ranks_limit_them(files, ranks, count, tmp_path, monkeypatch):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    if ranks:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
    assert available_cpus(tmp_path) == count


def test_ranks_share_the_decoding_processes(monkeypatch):
    monkeypatch.setattr(cpus, "_quota", lambda folder: None)
    assert decoding_workers(None) == 7
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert decoding_workers(None) == 3
    assert decoding_workers(5) == 5


def test_processes_are_refused_where_shared_memory_is_full(tmp_path, monkeypatch):
    usage = SimpleNamespace(free=64 << 20)
    monkeypatch.setattr(cpus.shutil, "disk_usage", lambda place: usage)
    cpus.check_shared_memory(tmp_path)
    usage.free = 1 << 16
    cpus.check_shared_memory(tmp_path / "absent")  # systems without /dev/shm
    with pytest.raises(
        FileError, match=r"too little shared memory .* set data\.workers=0, or .* --shm-size=1g"
    ):
        cpus.check_shared_memory(tmp_path)


@pytest.mark.parametrize(("before", "after"), [("0", 800), ("-50", 800), ("950", 950)])
def test_where_memory_runs_out_a_decoding_process_ends_first(before, after, tmp_path, monkeypatch):
    monkeypatch.setattr(cpus, "OOM_SCORE", tmp_path / "oom_score_adj")
    cpus.end_this_process_first()  # without the file, nothing
    (tmp_path / "oom_score_adj").write_text(before)
    cpus.end_this_process_first()
    assert int((tmp_path / "oom_score_adj").read_text()) == after


@pytest.mark.parametrize(
    ("text", "native", "name"),
    [
        ("model name\t: Xeon X\nflags\t\t: fpu avx512f amx_bf16 avx512_fp16\n", True, "Xeon X"),
        ("model name\t: EPYC\nflags\t\t: fpu avx512_bf16\n", True, "EPYC"),
        ("processor\t: 0\nFeatures\t: fp asimd bf16\n", True, ""),
        ("model name\t: Xeon Y\nflags\t\t: fpu avx512f avx2\n", False, "Xeon Y"),
        (None, False, ""),
    ],
)
def test_what_linux_says_of_the_processor(text, native, name, tmp_path):
    facts = tmp_path / "cpuinfo"
    if text is not None:
        facts.write_text(text, encoding="utf-8")
    assert multiplies_bfloat16(facts) == native
    assert processor_name(facts) == name


@pytest.mark.parametrize(
    ("codes", "words", "said"),
    [
        ([], "shapes differ", None),
        ([0, 0], "shapes differ", None),
        ([], "unable to allocate shared memory (shm)", r"--shm-size=1g \(unable"),
        ([-7], "exited unexpectedly", r"--shm-size=1g"),
        ([0, -9], "exited unexpectedly", r"set data\.workers lower or to 0 \(exited"),
        ([1], "exited unexpectedly", r'under `if __name__ == "__main__":` or set data\.workers=0'),
    ],
)
def test_what_is_said_of_ended_decoding_processes_depends_on_how_they_ended(codes, words, said):
    found = cpus.why_workers_ended(codes, RuntimeError(words))
    assert found is None if said is None else re.search(said, found)
