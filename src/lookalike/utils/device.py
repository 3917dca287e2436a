"""The device that a command runs on, and its random state."""

from contextlib import AbstractContextManager

import torch

from lookalike.errors import ArgumentError
from lookalike.utils.cpus import multiplies_bfloat16
from lookalike.utils.validation import check_choice


def pick_device(name: str) -> torch.device:
    """The device called "auto" (a GPU if there is one), "cpu", "cuda" or "mps".

    Raises:
        ArgumentError: no such device here.
    """
    check_choice("device", name, ("auto", "cpu", "cuda", "mps"))
    present = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device(next((kind for kind in ("cuda", "mps") if present[kind]), "cpu"))
    if not present[name]:
        raise ArgumentError(f"this machine has no device '{name}'; use --device auto")
    return torch.device(name)


def computes_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 natively; emulated it is slower than float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and multiplies_bfloat16()


def free_memory_mb(device: torch.device) -> float:
    """Memory that tensors can still take on a CUDA GPU, what torch holds in reserve included; infinite elsewhere."""
    if device.type != "cuda":
        return float("inf")
    reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return float(torch.cuda.mem_get_info(device)[0] + reserve) / 2**20


def keep_random_state(device: torch.device) -> AbstractContextManager[None]:
    """A context after which torch's random state, on the CPU and on this device, is what it was."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])
