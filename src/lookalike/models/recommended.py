"""Backbones worth trying first, by machine.

Any other timm model can be named too; these are starting points. License, pretraining and input size are read from
timm when they are listed; the counts are of the architecture (a test counts them again) and stand here because
counting takes a second per network.
"""

from dataclasses import dataclass
from typing import Any

import timm

from lookalike.models.backbones import describe
from lookalike.models.pretrained import FROM_FILE_ONLY, PACKAGES


@dataclass(frozen=True)
class Recommendation:
    """A backbone for a machine and the reason.

    Attributes:
        machine: "cpu", "small gpu" (up to 12 GB), "large gpu", or "papers" for the networks of the literature.
        parameters: in millions, without classifier.
        macs: multiply-accumulates of one image at the weights' own size, in billions.
    """

    name: str
    machine: str
    parameters: float
    macs: float
    reason: str


RECOMMENDED = (
    Recommendation(
        "tf_efficientnet_lite0", "cpu", 3.4, 0.38, "the default: fast, and its weights need no hub"
    ),
    Recommendation("tf_efficientnet_lite2", "cpu", 4.8, 0.86, "larger; weights from a package"),
    Recommendation("mobilenetv3_large_100", "cpu", 3.0, 0.21, "the fewest operations"),
    Recommendation("efficientnet_b0", "cpu", 4.0, 0.38, "accurate for its size"),
    Recommendation("resnet18", "cpu", 11.2, 1.81, "plain and well understood"),
    Recommendation("resnet50", "small gpu", 23.5, 4.09, "of ProxyNCA++ and Proxy-Anchor"),
    Recommendation(
        "convnext_tiny.in12k_ft_in1k", "small gpu", 27.8, 4.45, "convolutions, pretrained on ImageNet-12k"
    ),
    Recommendation(
        "vit_small_patch14_dinov2", "small gpu", 22.1, 46.7, "DINOv2, self-supervised; strong untrained"
    ),
    Recommendation("vit_small_patch16_dinov3", "small gpu", 21.6, 6.25, "DINOv3, self-supervised; newer"),
    Recommendation(
        "vit_base_patch16_clip_224.openai", "small gpu", 85.8, 17.56, "CLIP: image and text pairs"
    ),
    Recommendation(
        "vit_base_patch16_siglip_224.v2_webli", "small gpu", 85.8, 17.47, "SigLIP 2: image and text pairs"
    ),
    Recommendation(
        "vit_large_patch14_dinov2", "large gpu", 304.4, 506.8, "DINOv2, self-supervised; strong untrained"
    ),
    Recommendation("vit_large_patch16_dinov3", "large gpu", 303.1, 82.37, "DINOv3, self-supervised; newer"),
    Recommendation(
        "vit_large_patch14_clip_224.openai", "large gpu", 303.2, 81.01, "CLIP: image and text pairs"
    ),
    Recommendation(
        "vit_so400m_patch14_siglip_224.v2_webli", "large gpu", 412.4, 109.48, "SigLIP 2: image and text pairs"
    ),
    Recommendation("inception_v3", "papers", 21.8, 5.71, "Inception v3"),
    Recommendation("googlenet", "papers", 5.6, 1.5, "Inception v1"),
    Recommendation(
        "bn_inception", "papers", 10.3, 2.03, "Inception v2; weights: a local bn_inception-52deb4733.pth"
    ),
)


def recommended() -> list[dict[str, Any]]:
    """One row of facts per recommended backbone, for `lookalike list backbones`."""
    return [_row(entry) for entry in RECOMMENDED]


def _row(entry: Recommendation) -> dict[str, Any]:
    architecture = entry.name.partition(".")[0]
    if timm.is_model(architecture):
        own = timm.get_pretrained_cfg(entry.name)
        size, pretraining, license_name = own.input_size[1], own.tag, own.license
    else:
        facts = describe(entry.name)
        size, pretraining, license_name = facts.preprocessing.size, facts.pretraining, facts.license
    weights = "file" if entry.name in FROM_FILE_ONLY else "package" if architecture in PACKAGES else "hub"
    return {
        "backbone": entry.name,
        "machine": entry.machine,
        "pixels": size,
        "parameters (M)": entry.parameters,
        "MACs (G)": entry.macs,
        "weights": weights,
        "pretraining": pretraining,
        "license": license_name,
        "note": entry.reason,
    }
