"""The number type that training computes in, by device."""

import pytest
import torch

from lookalike.utils.device import default_precision


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
