"""Builds the network of a backbone, with random weights or those of a hub or folder."""

import json
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
from torch import nn

from lookalike.errors import ArgumentError, FileError, LookalikeError, UnknownNameError, first_line
from lookalike.models.bn_inception import BNInception
from lookalike.models.same_padding import pad_kernels
from lookalike.models.stages import unused_children
from lookalike.utils.validation import near_miss

SOURCES = ("hf-hub:", "local-dir:")
NOT_TIMM = ("googlenet", "bn_inception")
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
class Architecture:
    """A network without weights, named so that it can be built again offline: no hub name, no folder."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


def create_timm(name: str, *, pretrained: bool = False, **arguments: Any) -> Any:
    """A timm model without classifier, with random weights or its own; names of hub and folder included.

    Raises:
        UnknownNameError, FileError: as `describe`.
    """
    if not name.startswith(SOURCES) and not timm.is_model(name.partition(".")[0]):
        hint = near_miss(name, [*NOT_TIMM, *timm.list_models()])
        raise UnknownNameError(
            f"unknown backbone '{name}'{hint} (any timm model works by its timm name, and hf-hub:OWNER/NAME or "
            "local-dir:FOLDER; `lookalike list backbones` names some to begin with)"
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
    _adapt(network, architecture)
    return at_size(network, size) if size is not None else network


def create_pretrained(name: str, architecture: Architecture) -> nn.Module:
    """The network of a backbone with the weights of its hub or folder, without its classifier."""
    if name == "googlenet":
        weights = torchvision.models.GoogLeNet_Weights.DEFAULT
        return _without_head(torchvision.models.googlenet(weights=weights))
    network: nn.Module = create_timm(name, pretrained=True)
    _adapt(network, architecture)
    return network


def _without_head(googlenet: nn.Module) -> nn.Module:
    """The feature extractor of GoogLeNet, whose children are called in the order of their definition."""
    heads = ("aux1", "aux2", "avgpool", "dropout", "fc")
    return nn.Sequential(OrderedDict(item for item in googlenet.named_children() if item[0] not in heads))


def at_size(network: nn.Module, size: int) -> nn.Module:
    """The network, made for `size` x `size` images where its weights depend on the size (timm resamples them)."""
    fixed = getattr(network, "pretrained_cfg", {}).get("fixed_input_size", False)
    if fixed and hasattr(network, "set_input_size"):
        patch = patch_of(network)
        if size % patch == 0:
            set_size: Any = network.set_input_size
            with (
                warnings.catch_warnings()
            ):  # timm's resampling of relative positions warns of its own indexing
                warnings.simplefilter("ignore", UserWarning)
                set_size(img_size=(size, size))
    return network


def patch_of(network: Any) -> int:
    """The side of an image must be a multiple of this many pixels."""
    ratio = getattr(getattr(network, "patch_embed", None), "feat_ratio", None)
    if ratio is None:
        return 1
    found = ratio()
    return int(found if isinstance(found, int) else max(found))


def _adapt(network: nn.Module, architecture: Architecture) -> None:
    """Replaces children that the feature extractor does not use by `Identity`, and slow convolutions by fast ones."""
    pad_kernels(network)
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


def saved_arguments(name: str) -> dict[str, Any]:
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
