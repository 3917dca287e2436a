"""Launching: what it changes in the process, and where."""

import os

import pytest
import torch

from lookalike.training.setup import launch

VARIABLE = "PYTORCH_NVML_BASED_CUDA_CHECK"


@pytest.mark.parametrize("gpu", [True, False])
def test_a_variable_of_lightning_goes_only_where_no_gpu_is(gpu, monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    launch("cpu", 1, "32-true")
    assert (os.environ.get(VARIABLE) == "1") == gpu
