"""Versions, machine, device and command of a run."""

import platform
import sys
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import torch


def environment(device: str) -> dict[str, Any]:
    """Versions, machine, device and command, as written into environment.json; the GPU only if it is the device."""
    packages = (
        "lookalike",
        "torch",
        "torchvision",
        "timm",
        "numpy",
        "pillow",
        "lightning-fabric",
        "scikit-learn",
    )
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": device,
        "gpu": torch.cuda.get_device_name() if device.startswith("cuda") else None,
        "threads": torch.get_num_threads(),
        "packages": {name: metadata.version(name) for name in packages},
    }
