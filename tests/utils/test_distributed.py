"""Sums and gathering over processes are held to one process in `test_many_processes`; here, what they say."""

import pytest
import torch
from torch import distributed as dist

from lookalike.errors import TrainingError
from lookalike.utils import distributed
from lookalike.utils.distributed import Processes

PAIR = Processes(rank=0, size=2)
CLOSED = "[gloo/transport/tcp/pair.cc:561] Connection closed by peer [127.0.0.1]:31649. GLHF!"
COLLECTIVES = {
    "barrier": lambda: PAIR.barrier(),
    "all_reduce": lambda: PAIR.sum_(torch.ones(2)),
    "all_gather": lambda: PAIR.gather(torch.ones(2, 1)),
}


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (CLOSED, TrainingError, "another process of this run has stopped"),
        ("shapes differ", RuntimeError, "shapes differ"),
    ],
)
def test_another_process_that_is_gone_is_reported_in_a_line(name, words, error, message, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError(words)

    monkeypatch.setattr(dist, name, broken)
    with pytest.raises(error, match=message) as caught:
        COLLECTIVES[name]()
    assert type(caught.value) is error


@pytest.fixture
def groups(monkeypatch):
    """Names of the groups that each collective was called with; a gathering finds the same rows everywhere."""
    seen = []

    def all_gather(parts, x, *, group):
        seen.append(group)
        for part in parts:
            part.copy_(x)

    monkeypatch.setattr(dist, "all_gather", all_gather)
    monkeypatch.setattr(dist, "all_reduce", lambda x, *, op, group: seen.append(group))
    monkeypatch.setattr(dist, "broadcast", lambda x, *, src, group: seen.append(group))
    monkeypatch.setattr(dist, "barrier", seen.append)
    for name in ("_prompt_group", "_host_group", "_patient_group"):
        monkeypatch.setattr(distributed, name, name)
    monkeypatch.setattr(Processes, "all", classmethod(lambda cls: PAIR))
    return seen


def test_nccl_is_never_given_a_tensor_in_host_memory(groups):
    PAIR.sum_(torch.ones(2))
    PAIR.maximum_(torch.ones(2))
    assert PAIR.gather(torch.ones(2, 1)).shape == (4, 1)
    distributed.broadcast(torch.nn.Linear(2, 2))
    PAIR.barrier()
    assert set(groups) == {"_host_group"}


def test_tensors_of_a_device_go_through_its_own_transport(groups):
    PAIR.sum_(torch.ones(2, device="meta"))
    distributed.broadcast(torch.nn.Linear(2, 2, device="meta"))
    assert set(groups) == {"_prompt_group"}


def test_only_the_group_of_the_device_has_its_backend(monkeypatch):
    backends = []
    monkeypatch.setattr(dist, "new_group", lambda **options: backends.append(options.get("backend")))
    for name in ("_prompt_group", "_host_group", "_patient_group"):
        monkeypatch.setattr(distributed, name, None)
    distributed.use_short_timeouts()
    assert sorted(backends, key=str) == [None, "gloo", "gloo"]


def test_labels_are_gathered_where_the_embeddings_are(groups, monkeypatch):
    monkeypatch.setattr(Processes, "gather", lambda self, x: x)
    monkeypatch.setattr(distributed._GatherWithGradient, "apply", lambda x, *_: x)
    labels = torch.zeros(3, dtype=torch.int64)
    _, gathered = distributed.global_batch(torch.zeros(3, 2, device="meta"), labels)
    assert gathered.device.type == "meta"


@pytest.mark.parametrize("count", range(6))
def test_processes_that_are_more_than_the_things_to_share_each_do_all(count):
    shares = [Processes(rank, 3).for_count(count).share(count) for rank in range(3)]
    assert all(first < end for first, end in shares) or count == 0
    covered = {thing for first, end in shares for thing in range(first, end)}
    assert covered == set(range(count))


def test_one_process_needs_no_other():
    alone, x = Processes(), torch.arange(3)
    alone.barrier()
    assert alone.sum_(x) is x
    assert alone.gather(x) is x
    assert alone.share(7) == (0, 7)
