"""Small members of every family of networks, with random weights and batch norms far from the identity."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from lookalike.models.backbones import describe
from lookalike.models.config import EmbedderConfig
from lookalike.models.embedder import Embedder
from lookalike.models.networks import Architecture, create


@dataclass(frozen=True)
class Member:
    """A backbone made smaller by arguments of its own, and a size of images that is no multiple of 32."""

    name: str
    size: int
    arguments: dict[str, Any] = field(default_factory=dict)


FAMILIES = {
    "EfficientNet": Member("tf_efficientnet_lite0", 75),
    "MobileNet": Member("mobilenetv3_small_100", 75),
    "ResNet": Member("resnet18", 75),
    "RegNet": Member("regnety_002", 75),
    "DenseNet": Member("densenet121", 75, {"block_config": (2, 2, 2, 2)}),
    "VGG": Member("vgg11_bn", 75),
    "Inception v3": Member("inception_v3", 95),
    "GoogLeNet": Member("googlenet", 75),
    "BN-Inception": Member("bn_inception", 75),
    "ConvNeXt": Member("convnext_atto", 75),
    "ViT, patch 16": Member("vit_tiny_patch16_224", 80, {"depth": 3}),
    "ViT, patch 14": Member("vit_small_patch14_dinov2", 70, {"depth": 3, "embed_dim": 96, "num_heads": 3}),
    "ViT with registers": Member(
        "vit_small_patch14_reg4_dinov2", 70, {"depth": 2, "embed_dim": 96, "num_heads": 3}
    ),
    "ViT with rotary positions": Member("eva02_tiny_patch14_224", 70, {"depth": 2}),
    "DINOv3": Member("vit_small_patch16_dinov3", 80, {"depth": 2, "embed_dim": 96, "num_heads": 3}),
    "BEiT": Member("beit_base_patch16_224", 80, {"depth": 2, "embed_dim": 96, "num_heads": 3}),
    "Swin": Member(
        "swin_tiny_patch4_window7_224",
        100,
        {"depths": (1, 1, 2, 1), "embed_dim": 24, "num_heads": (1, 2, 3, 4)},
    ),
    "hybrid": Member("vit_tiny_r_s16_p8_224", 96, {"depth": 2}),
}


def build_member(member: Member, *, seed: int = 0, **settings: Any) -> Embedder:
    """An embedder on a member, in evaluation mode."""
    facts = describe(member.name)
    architecture = Architecture(member.name, facts.architecture.arguments | member.arguments)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone: Any = create(architecture, member.size)
        config = EmbedderConfig(
            **{
                "backbone": member.name,
                "architecture": architecture,
                "channels": backbone.num_features if hasattr(backbone, "num_features") else facts.channels,
                "pooling": "concat",
                "k": 1,
                "norm": "none",
                "embedding_dim": 8,
                "bias": True,
                "preprocessing": facts.preprocessing.at_size(member.size, None),
                "weights_origin": "none",
                "weights_license": "none",
                **settings,
            }
        )
        embedder = Embedder(backbone, config)
        for module in embedder.modules():
            if isinstance(module, _BatchNorm) and module.running_mean is not None:
                nn.init.normal_(module.running_mean, 0, 0.1)
                nn.init.uniform_(module.running_var, 0.5, 2)
                nn.init.normal_(module.weight, 1, 0.1)
                nn.init.normal_(module.bias, 0, 0.1)
    return embedder.eval()


def images(size: int, count: int = 2, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8, generator=generator)
