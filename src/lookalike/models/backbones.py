"""Backbones by name, and their facts.

Facts of a timm model (channels, input size, means, license, pretraining) are read from timm, so that `resnet50` and
`resnet50.a1_in1k` cannot differ. `FROZEN_STAGES` is what timm does not know. A name is one of

    resnet50, resnet50.a1_in1k      a timm model, with or without the tag of its weights
    hf-hub:timm/resnet50.a1_in1k    a timm model on the Hugging Face hub
    local-dir:FOLDER                a timm model in a folder (`config.json`, `model.safetensors`)
    googlenet, bn_inception         two networks that timm does not have
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import torch
from timm.data import resolve_model_data_config
from torch import nn

from lookalike.errors import ArgumentError
from lookalike.models.networks import Architecture, create, create_timm, patch_of, saved_arguments
from lookalike.models.trace import features
from lookalike.preprocessing import INTERPOLATIONS, Preprocessing

HALF = (0.5, 0.5, 0.5)
CAFFE = Preprocessing(
    size=224,
    resize=256,
    interpolation="bilinear",
    mean=(128 / 255, 117 / 255, 104 / 255),
    std=(1 / 255, 1 / 255, 1 / 255),
    channels="bgr",
)


FROZEN_STAGES: Mapping[str, int] = {
    "tf_efficientnet_lite0": 5,
    "tf_efficientnet_lite1": 5,
    "tf_efficientnet_lite2": 5,
    "resnet18": 4,
    "resnet50": 4,
    "inception_v3": 12,
    "googlenet": 8,
    "bn_inception": 8,
    "mobilenetv3_large_100": 5,
    "efficientnet_b0": 5,
    "convnext_tiny": 4,
    "vit_small_patch16_224": 9,
}
"""How many stages mode `partial` freezes, where it has been measured (`benchmarks/stages.py`): the fewest for which
training the rest takes no longer than one forward pass of the whole network. Networks of inverted residuals freeze one
less, whose activations are still small: map_at_r gains more by that than by more epochs
(docs/explanation/what_was_tried.md)."""


@dataclass(frozen=True)
class Backbone:
    """Facts about a backbone with its usual weights.

    Attributes:
        name: as given by the user.
        architecture: the network.
        channels: channels of its feature maps.
        preprocessing: what its usual weights expect of an image.
        patch: the side of an image must be a multiple of this many pixels.
        license: of those weights.
        pretraining: timm's tag of those weights, which names method and data.
    """

    name: str
    architecture: Architecture
    channels: int
    preprocessing: Preprocessing
    patch: int
    license: str
    pretraining: str


@cache
def describe(name: str) -> Backbone:
    """The facts of a backbone.

    Raises:
        UnknownNameError: no such backbone; with the near miss.
        FileError: a folder or hub repository that cannot be read.
    """
    if name == "bn_inception":
        license_name, tag = "not stated by its makers", "ImageNet-1k"
        return Backbone(name, Architecture(name), 1024, CAFFE, 1, license_name, tag)
    if name == "googlenet":
        preprocessing = Preprocessing(interpolation="bilinear", mean=HALF, std=HALF)
        return Backbone(name, Architecture(name), 1024, preprocessing, 1, "BSD-3-Clause", "ImageNet-1k")
    with torch.device("meta"):
        network = create_timm(name)
    facts = network.pretrained_cfg
    architecture = str(facts.get("architecture") or name.partition(".")[0])
    return Backbone(
        name,
        Architecture(architecture, saved_arguments(name)),
        int(network.num_features),
        _preprocessing(network),
        patch_of(network),
        str(facts.get("license") or "not stated"),
        str(facts.get("tag") or "not stated"),
    )


def check_size(facts: Backbone, size: int) -> None:
    """Refuses a size of images that the backbone cannot take, naming sizes that it can.

    Raises:
        ArgumentError: the size is no multiple of the patch, or the network fails at this size.
    """
    what = f"backbone '{facts.name}' does not take images of {size} pixels"
    if size % facts.patch:
        below, above = size // facts.patch * facts.patch, -(-size // facts.patch) * facts.patch
        works = f"{below} or {above}" if below else str(above)
        raise ArgumentError(
            f"{what}: the size must be a multiple of {facts.patch}; set image_size to {works}"
        )
    name, arguments = facts.architecture.name, json.dumps(facts.architecture.arguments, sort_keys=True)
    if not _runs(name, arguments, size):
        near = {facts.preprocessing.size, *(size // 32 * 32 + step for step in (-32, 0, 32, 64))} - {size}
        works = ", ".join(str(other) for other in sorted(near) if other > 0 and _runs(name, arguments, other))
        raise ArgumentError(f"{what}; set image_size to a size that works, such as {works}")


@cache
def _runs(name: str, arguments: str, size: int) -> bool:
    """Whether the network runs on images of this size, tried on meta tensors."""
    try:
        with torch.device("meta"), torch.no_grad():
            network = create(Architecture(name, json.loads(arguments)), size).eval()
            features(network, torch.empty(1, 3, size, size))
    except (RuntimeError, AssertionError, ValueError, TypeError, IndexError):
        return False
    return True


def _preprocessing(network: nn.Module) -> Preprocessing:
    facts = resolve_model_data_config(network)
    size = int(facts["input_size"][1])
    return Preprocessing(
        size=size,
        resize=max(size, math.floor(size / facts["crop_pct"])),
        square=facts["crop_mode"] == "squash",
        interpolation=facts["interpolation"] if facts["interpolation"] in INTERPOLATIONS else "bicubic",
        mean=tuple(facts["mean"]),
        std=tuple(facts["std"]),
    )
