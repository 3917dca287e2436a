"""Sums and gathering over processes are held to one process in `test_many_processes`; here, what they say."""

import pytest
import torch
from torch import distributed as dist

from lookalike.errors import TrainingError
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

    monkeypatch.setattr(dist, "get_backend", lambda group: "gloo")
    monkeypatch.setattr(dist, name, broken)
    with pytest.raises(error, match=message) as caught:
        COLLECTIVES[name]()
    assert type(caught.value) is error


@pytest.mark.parametrize(("backend", "devices"), [("gloo", None), ("nccl", [3])])
def test_processes_wait_on_their_own_devices(backend, devices, monkeypatch):
    seen = []
    monkeypatch.setattr(dist, "get_backend", lambda group: backend)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(dist, "barrier", lambda group, device_ids: seen.append(device_ids))
    PAIR.barrier()
    assert seen == [devices]


def test_one_process_needs_no_other():
    alone, x = Processes(), torch.arange(3)
    alone.barrier()
    assert alone.sum_(x) is x
    assert alone.gather(x) is x
    assert alone.share(7) == (0, 7)
