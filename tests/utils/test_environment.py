"""What a run records of the machine."""

import pytest
import torch

from lookalike.utils.environment import environment


@pytest.mark.parametrize(("device", "gpu"), [("cuda:0", "a GPU"), ("cpu", None), ("mps", None)])
def test_a_gpu_that_the_run_does_not_use_is_not_recorded(device, gpu, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    assert environment(device)["gpu"] == gpu
