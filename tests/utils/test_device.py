"""How much memory a device has left."""

import pytest
import torch

from lookalike.utils.device import free_memory_mb


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_only_a_gpu_bounds_the_memory(device):
    assert free_memory_mb(torch.device(device)) == float("inf")


def test_what_torch_holds_in_reserve_can_be_used(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (100 << 20, 999 << 20))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 70 << 20)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 30 << 20)
    assert free_memory_mb(torch.device("cuda")) == 140
