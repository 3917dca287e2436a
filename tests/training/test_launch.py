"""Launching: what it changes in the process, and where; and the number type that training computes in."""

import os

import pytest
import torch

from lookalike.errors import ArgumentError
from lookalike.training.launch import default_precision, launch

VARIABLE = "PYTORCH_NVML_BASED_CUDA_CHECK"


@pytest.mark.parametrize("gpu", [True, False])
def test_a_variable_of_lightning_goes_only_where_no_gpu_is(gpu, monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    launch("cpu", 1, "32-true")
    assert (os.environ.get(VARIABLE) == "1") == gpu


@pytest.mark.parametrize(
    ("accelerator", "has_bfloat16", "precision"),
    [
        ("cpu", True, "32-true"),
        ("mps", True, "32-true"),
        ("cuda", True, "bf16-mixed"),
        ("cuda", False, "16-mixed"),  # before Ampere: bfloat16 is emulated, and slow
    ],
)
def test_mixed_precision_is_for_gpus_that_have_the_number_type(
    accelerator, has_bfloat16, precision, monkeypatch
):
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation or has_bfloat16
    )
    assert default_precision(accelerator) == precision


@pytest.mark.parametrize(("accelerator", "gpus"), [("cuda", 2), ("mps", 1)])
def test_more_processes_than_gpus_are_refused_in_a_line(accelerator, gpus, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ArgumentError, match=f"4 processes need 4 GPUs, and this machine has {gpus}"):
        launch(accelerator, 4, "32-true")
