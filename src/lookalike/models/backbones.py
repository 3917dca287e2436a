"""Backbones by name: their facts, and how each network is built.

Facts of a timm model (channels, input size, means, license, pretraining) are read from timm, so that `resnet50` and
`resnet50.a1_in1k` cannot differ. `BACKBONES` keeps only what timm does not know. A name is one of

    resnet50, resnet50.a1_in1k      a timm model, with or without the tag of its weights
    hf-hub:timm/resnet50.a1_in1k    a timm model on the Hugging Face hub
    local-dir:FOLDER                a timm model in a folder (`config.json`, `model.safetensors`)
    googlenet, bn_inception         two networks that timm does not have
"""

import json
import math
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import timm
import torch
import torchvision
from timm.data import resolve_model_data_config
from torch import nn

from lookalike.errors import ArgumentError, FileError, LookalikeError, UnknownNameError, first_line
from lookalike.models.bn_inception import BNInception
from lookalike.models.stages import unused_children
from lookalike.models.trace import features
from lookalike.preprocessing import INTERPOLATIONS, Preprocessing
from lookalike.utils.validation import near_miss

HALF = (0.5, 0.5, 0.5)
CAFFE = Preprocessing(
    size=224,
    resize=256,
    interpolation="bilinear",
    mean=(128 / 255, 117 / 255, 104 / 255),
    std=(1 / 255, 1 / 255, 1 / 255),
    channels="bgr",
)
SOURCES = ("hf-hub:", "local-dir:")
NOT_SAVED = (
    "pretrained",
    "checkpoint_path",
    "cache_dir",
    "num_classes",
    "scriptable",
    "exportable",
    "no_jit",
)
"""Arguments of `timm.create_model` that say nothing about the architecture, or would read a file."""


@dataclass(frozen=True)
class Known:
    """What timm does not know about a backbone.

    Attributes:
        frozen_stages: how many stages `partial` training freezes: the fewest for which training the rest takes no
            longer than one forward pass of the whole network, measured by `benchmarks/stages.py`.
        note: one line for the list of backbones.
    """

    frozen_stages: int
    note: str = ""


BACKBONES: Mapping[str, Known] = {
    "tf_efficientnet_lite0": Known(6, "weights from a Python package; the default on a CPU"),
    "tf_efficientnet_lite1": Known(6, "weights from a Python package"),
    "tf_efficientnet_lite2": Known(6, "weights from a Python package"),
    "resnet18": Known(4),
    "resnet50": Known(4, "of ProxyNCA++ and Proxy-Anchor"),
    "inception_v3": Known(12),
    "googlenet": Known(8, "Inception v1"),
    "bn_inception": Known(8, "of the papers; weights: a local bn_inception-52deb4733.pth"),
    "mobilenetv3_large_100": Known(6),
    "efficientnet_b0": Known(6),
    "convnext_tiny": Known(4),
    "vit_small_patch16_224": Known(9),
}
"""Backbones for which the number of frozen stages has been measured. Any other timm model works too."""


@dataclass(frozen=True)
class Architecture:
    """A network without weights, named so that it can be built again offline: no hub name, no folder."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


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
        known: what timm does not know, if it has been measured.
    """

    name: str
    architecture: Architecture
    channels: int
    preprocessing: Preprocessing
    patch: int
    license: str
    pretraining: str
    known: Known | None


@cache
def describe(name: str) -> Backbone:
    """The facts of a backbone.

    Raises:
        UnknownNameError: no such backbone; with the near miss.
        FileError: a folder or hub repository that cannot be read.
    """
    if name == "bn_inception":
        license_name, tag = "not stated by its makers", "ImageNet-1k"
        return Backbone(name, Architecture(name), 1024, CAFFE, 1, license_name, tag, BACKBONES[name])
    if name == "googlenet":
        preprocessing = Preprocessing(interpolation="bilinear", mean=HALF, std=HALF)
        return Backbone(
            name, Architecture(name), 1024, preprocessing, 1, "BSD-3-Clause", "ImageNet-1k", BACKBONES[name]
        )
    with torch.device("meta"):
        network = create_timm(name)
    facts = network.pretrained_cfg
    architecture = str(facts.get("architecture") or name.partition(".")[0])
    return Backbone(
        name,
        Architecture(architecture, _saved_arguments(name)),
        int(network.num_features),
        _preprocessing(network),
        _patch(network),
        str(facts.get("license") or "not stated"),
        str(facts.get("tag") or "not stated"),
        BACKBONES.get(architecture),
    )


def create_timm(name: str, *, pretrained: bool = False, **arguments: Any) -> Any:
    """A timm model without classifier, with random weights or its own; names of hub and folder included.

    Raises:
        UnknownNameError, FileError: as `describe`.
    """
    if not name.startswith(SOURCES) and not timm.is_model(name.partition(".")[0]):
        known = [*BACKBONES, *timm.list_models()]
        raise UnknownNameError(
            f"unknown backbone '{name}'{near_miss(name, known)} (known here: {', '.join(BACKBONES)}; any timm "
            "model works by its timm name, and hf-hub:OWNER/NAME or local-dir:FOLDER)"
        )
    if name.partition(".")[0] == "inception_v3":
        arguments["aux_logits"] = False
    try:
        return timm.create_model(name, pretrained=pretrained, num_classes=0, **arguments)
    except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        if pretrained or isinstance(error, LookalikeError):
            raise
        where = "has no readable timm model" if name.startswith(SOURCES) else "cannot be built"
        raise FileError(f"backbone '{name}' {where}: {first_line(error)[:200]}") from error


def create(architecture: Architecture, size: int | None = None) -> nn.Module:
    """The network of an architecture without its classifier, for images of `size` pixels.

    Random weights come from torch's global generator, as networks draw them; callers fork it.
    """
    if architecture.name == "bn_inception":
        return BNInception()
    if architecture.name == "googlenet":
        return _without_head(torchvision.models.googlenet(aux_logits=False, init_weights=True))
    if architecture.name.startswith(SOURCES):
        raise ArgumentError(f"architecture '{architecture.name}' is not a plain timm name")
    forbidden = [key for key in architecture.arguments if not _describes_network(key)]
    if forbidden:
        raise ArgumentError(
            f"architecture '{architecture.name}' has arguments that it may not have: {forbidden}"
        )
    network: nn.Module = create_timm(architecture.name, **architecture.arguments)
    _drop(network, architecture)
    return at_size(network, size) if size is not None else network


def create_pretrained(name: str) -> nn.Module:
    """The network of a backbone with the weights of its hub or folder, without its classifier."""
    if name == "googlenet":
        weights = torchvision.models.GoogLeNet_Weights.DEFAULT
        return _without_head(torchvision.models.googlenet(weights=weights))
    network: nn.Module = create_timm(name, pretrained=True)
    _drop(network, describe(name).architecture)
    return network


def _without_head(googlenet: nn.Module) -> nn.Module:
    """The feature extractor of GoogLeNet, whose children are called in the order of their definition."""
    heads = ("aux1", "aux2", "avgpool", "dropout", "fc")
    return nn.Sequential(OrderedDict(item for item in googlenet.named_children() if item[0] not in heads))


def at_size(network: nn.Module, size: int) -> nn.Module:
    """The network, made for `size` x `size` images where its weights depend on the size (timm resamples them)."""
    fixed = getattr(network, "pretrained_cfg", {}).get("fixed_input_size", False)
    if fixed and hasattr(network, "set_input_size"):
        patch = _patch(network)
        if size % patch == 0:
            set_size: Any = network.set_input_size
            with (
                warnings.catch_warnings()
            ):  # timm's resampling of relative positions warns of its own indexing
                warnings.simplefilter("ignore", UserWarning)
                set_size(img_size=(size, size))
    return network


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


def _drop(network: nn.Module, architecture: Architecture) -> None:
    """Replaces children that the feature extractor does not use by `Identity`."""
    for name in unused(architecture.name, json.dumps(architecture.arguments, sort_keys=True)):
        setattr(network, name, nn.Identity())


@cache
def unused(name: str, arguments: str) -> tuple[str, ...]:
    """Children of a timm model that its feature extractor does not use; `arguments` as JSON."""
    with torch.device("meta"):
        network = create_timm(name, **json.loads(arguments))
    return tuple(unused_children(network, int(network.pretrained_cfg["input_size"][1])))


def head_names(network: nn.Module, architecture: Architecture) -> tuple[str, ...]:
    """Names under which a file of weights may hold what the network is built without."""
    classifiers = getattr(network, "pretrained_cfg", {}).get("classifier") or ()
    names = (classifiers,) if isinstance(classifiers, str) else tuple(classifiers)
    if timm.is_model(architecture.name):
        names += unused(architecture.name, json.dumps(architecture.arguments, sort_keys=True))
    return (*names, "AuxLogits", "aux1", "aux2", "fc", "last_linear")


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


def _patch(network: Any) -> int:
    ratio = getattr(getattr(network, "patch_embed", None), "feat_ratio", None)
    if ratio is None:
        return 1
    found = ratio()
    return int(found if isinstance(found, int) else max(found))


def _saved_arguments(name: str) -> dict[str, Any]:
    """Arguments that a hub repository or folder gives its architecture."""
    if not name.startswith(SOURCES):
        return {}
    source, _, where = name.partition(":")
    if source == "hf-hub":
        _, _, arguments = timm.models.load_model_config_from_hf(where)
    else:
        arguments = json.loads((Path(where) / "config.json").read_text(encoding="utf-8")).get("model_args")
    return {key: value for key, value in (arguments or {}).items() if _describes_network(key)}


def _describes_network(argument: str) -> bool:
    return argument not in NOT_SAVED and not argument.startswith("pretrained")
