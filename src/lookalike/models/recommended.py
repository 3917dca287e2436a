"""Backbones worth trying first, by machine: names and reasons here, every fact from timm.

Any other timm model can be named too; these are starting points. Multiply-accumulates and parameters are counted on
meta tensors, so listing downloads nothing.
"""

from dataclasses import dataclass
from typing import Any

import torch

from lookalike.models.backbones import BACKBONES, Backbone, create, describe
from lookalike.models.pretrained import FROM_FILE_ONLY, PACKAGES
from lookalike.models.stages import count_macs
from lookalike.models.trace import features


@dataclass(frozen=True)
class Recommendation:
    """A backbone for a machine ("cpu", "small gpu": up to 12 GB, "large gpu", or "papers") and the reason."""

    name: str
    machine: str
    reason: str


RECOMMENDED = (
    Recommendation("tf_efficientnet_lite0", "cpu", "the default: fast, and its weights need no hub"),
    Recommendation("tf_efficientnet_lite2", "cpu", "larger; weights from a package"),
    Recommendation("mobilenetv3_large_100", "cpu", "the fewest operations"),
    Recommendation("efficientnet_b0", "cpu", "accurate for its size"),
    Recommendation("resnet18", "cpu", "plain and well understood"),
    Recommendation("resnet50", "small gpu", "of ProxyNCA++ and Proxy-Anchor"),
    Recommendation(
        "convnext_tiny.in12k_ft_in1k", "small gpu", "convolutions, pretrained on more than ImageNet-1k"
    ),
    Recommendation("vit_small_patch14_dinov2", "small gpu", "self-supervised; strong without training"),
    Recommendation("vit_small_patch16_dinov3", "small gpu", "self-supervised; newer"),
    Recommendation("vit_base_patch16_clip_224.openai", "small gpu", "CLIP: image and text pairs"),
    Recommendation("vit_base_patch16_siglip_224.v2_webli", "small gpu", "SigLIP 2: image and text pairs"),
    Recommendation("vit_large_patch14_dinov2", "large gpu", "self-supervised; strong without training"),
    Recommendation("vit_large_patch16_dinov3", "large gpu", "self-supervised; newer"),
    Recommendation("vit_large_patch14_clip_224.openai", "large gpu", "CLIP: image and text pairs"),
    Recommendation("vit_so400m_patch14_siglip_224.v2_webli", "large gpu", "SigLIP 2: image and text pairs"),
    Recommendation("inception_v3", "papers", ""),
    Recommendation("googlenet", "papers", ""),
    Recommendation("bn_inception", "papers", ""),
)


def recommended() -> list[dict[str, Any]]:
    """One row of facts per recommended backbone, for `lookalike list backbones`."""
    return [_row(entry, describe(entry.name)) for entry in RECOMMENDED]


def _row(entry: Recommendation, facts: Backbone) -> dict[str, Any]:
    size = facts.preprocessing.size
    with torch.device("meta"):
        network = create(facts.architecture, size).eval()
        images = torch.empty(1, 3, size, size)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    macs = count_macs(lambda: features(network, images))
    known = BACKBONES.get(facts.architecture.name)
    return {
        "machine": entry.machine,
        "backbone": entry.name,
        "pixels": size,
        "channels": facts.channels,
        "million parameters": round(parameters / 1e6, 1),
        "giga multiply-accumulates": round(macs / 1e9, 2),
        "weights": _weights(facts),
        "pretraining": facts.pretraining,
        "license": facts.license,
        "note": entry.reason or (known.note if known else ""),
    }


def _weights(facts: Backbone) -> str:
    if facts.name in FROM_FILE_ONLY:
        return "file"
    return "package" if facts.architecture.name in PACKAGES else "hub"
