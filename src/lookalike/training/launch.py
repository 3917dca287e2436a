"""Starts the processes of a run on their devices, and says which number type suits a device."""

import os
from datetime import timedelta
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy

from lookalike.config.schema import Precision
from lookalike.errors import ArgumentError
from lookalike.training.start_processes import end_with_main_process, start_processes
from lookalike.utils.device import computes_bfloat16
from lookalike.utils.distributed import MEETING, use_short_timeouts
from lookalike.utils.validation import check_at_least


def launch(accelerator: str, devices: int, precision: Any) -> Fabric:
    """A Fabric whose processes run: one, `devices`, or those that torchrun has started.

    Raises:
        ArgumentError: more processes than GPUs.
    """
    check_at_least("devices", devices, 1)
    started = int(os.environ.get("WORLD_SIZE", 1)) if "TORCHELASTIC_RUN_ID" in os.environ else 1
    here = int(os.environ["LOCAL_WORLD_SIZE"]) if started > 1 else devices
    present = {"cuda": torch.cuda.device_count(), "mps": 1}.get(accelerator, here)
    if here > present:
        raise ArgumentError(
            f"{here} processes need {here} GPUs, and this machine has {present}; start at most {present} (--devices), "
            "or train with --device cpu"
        )
    many = max(started, devices) > 1
    end_with_main_process()
    if many and started == 1:
        start_processes(devices)
    fabric = Fabric(
        accelerator=accelerator,
        devices=here,
        num_nodes=max(1, started // here),
        strategy=DDPStrategy(timeout=timedelta(seconds=MEETING)) if many else "auto",
        precision=precision,
    )
    if not torch.cuda.is_available():
        # set when Lightning is imported; each optimizer step would load the driver, 0.3 ms
        os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)
    if many:
        fabric.launch()
        use_short_timeouts()
    return fabric


def default_precision(accelerator: str) -> Precision:
    """Mixed precision on "cuda": bfloat16, or float16 where bfloat16 would be emulated, as on GPUs before Ampere."""
    if accelerator != "cuda":
        return "32-true"
    return "bf16-mixed" if computes_bfloat16(torch.device(accelerator)) else "16-mixed"


def is_first_on_machine() -> bool:
    """Whether this is the first process of the run on this machine, or the only one."""
    return int(os.environ.get("LOCAL_RANK") or 0) == 0
