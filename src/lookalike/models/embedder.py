"""The network that turns images into embeddings: backbone -> pooling -> norm -> projection.

Images come as uint8 RGB and are normalized here, with the preprocessing that belongs to the weights, so
no caller can forget or repeat it. `forward` averages the views of the configuration, so whoever embeds sees
what was measured; training goes through the parts and sees one view at a time. Embeddings leave as raw float32
vectors; whoever compares them takes the cosine (ProxyNCA++ trains and compares raw ones, and can).

The backbone is a chain of stages where its family is known (see `stages`): `frozen_part(cut)` gives
activations worth keeping, `trainable_stages(cut)` goes on from them.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lookalike.errors import ArgumentError
from lookalike.models import backbones, pooling
from lookalike.models.parts import EmbedderConfig, Normalize, ToMaps, sized
from lookalike.models.pretrained import Loaded, load_backbone
from lookalike.models.stages import StageCost, stage_costs, stages_of
from lookalike.models.views import VIEWS, image_views, mean_over_views
from lookalike.preprocessing import Preprocessing
from lookalike.utils.validation import check_at_least, check_choice


class Embedder(nn.Module):
    """Images (B, 3, H, W) uint8 RGB to embeddings (B, embedding_dim) float32, not of unit length.

    Args:
        backbone: a network with `forward_features`, without its classifier.
        config: how its maps become an embedding.
        channels: channels of its feature maps.

    Attributes:
        preprocessing: what the backbone expects of an image.
        pooled_dim: width of the pooled vector, which the projection reads.
        embedding_dim: width of an embedding.
    """

    def __init__(self, backbone: nn.Module, config: EmbedderConfig, *, channels: int) -> None:
        super().__init__()
        check_choice("norm", config.norm, pooling.NORM_NAMES)
        check_at_least("k", config.k, 1)
        self.config = config
        self.channels = channels
        self.pooled_dim = pooling.pooled_width(channels, config.pooling)
        self.embedding_dim = self.pooled_dim if config.embedding_dim is None else config.embedding_dim
        check_at_least("embedding_dim", self.embedding_dim, 1)
        self.backbone = backbone
        self.projection: nn.Module = nn.Identity()
        if config.embedding_dim is not None:
            self.projection = nn.Linear(self.pooled_dim, self.embedding_dim, bias=config.bias)

    @property
    def preprocessing(self) -> Preprocessing:
        """What the backbone expects of an image."""
        return self.config.preprocessing

    @property
    def named_stages(self) -> tuple[tuple[str, nn.Module], ...] | None:
        """Name and module of the backbone's stages, or None where its family is unknown."""
        return stages_of(self.backbone)

    @property
    def stages(self) -> list[nn.Module] | None:
        """The backbone's stages, whose composition is its feature extractor; None for an unknown family."""
        named = self.named_stages
        return None if named is None else [stage for _, stage in named]

    def normalize_input(self, images_BCHW: Tensor) -> Tensor:
        """uint8 RGB images as the backbone's float input."""
        out: Tensor = Normalize(self.preprocessing)(images_BCHW)
        return out

    def feature_maps(self, images_BCHW: Tensor) -> Tensor:
        """The backbone's last maps, (B, channels, h, w)."""
        extract: Any = getattr(self.backbone, "forward_features", None) or nn.Sequential(
            *self._split_stages(0)
        )
        out: Tensor = ToMaps(self.backbone)(extract(self.normalize_input(images_BCHW)))
        return out

    def pool(self, maps_BFHW: Tensor) -> Tensor:
        """Pooled and normed vectors u, (B, pooled_dim) float32."""
        pooled = pooling.pool(maps_BFHW, self.config.pooling, k=self.config.k)
        return pooling.normed(pooled, self.config.norm)

    def project(self, pooled_BF: Tensor) -> Tensor:
        """Embeddings of pooled vectors, (B, embedding_dim) float32."""
        out: Tensor = self.projection(pooled_BF)
        return out.float()

    def embed_maps(self, maps_BFHW: Tensor) -> Tensor:
        """Embeddings of feature maps: `project(pool(maps))`."""
        return self.project(self.pool(maps_BFHW))

    def forward(self, images_BCHW: Tensor) -> Tensor:
        views = image_views(images_BCHW, self.config.views)
        return self.project(mean_over_views(lambda view: self.pool(self.feature_maps(view)), views))

    def set_views(self, views: int) -> None:
        """Makes `forward` see the image alone (1), or average it with its mirror image (2), at twice the cost."""
        if views not in VIEWS:
            raise ArgumentError(
                f"views is {views}; it is 1 (the image) or 2 (the image and its mirror image)"
            )
        self.config = replace(self.config, views=views)

    def frozen_part(self, cut: int) -> nn.Sequential:
        """uint8 images to the activations after the first `cut` stages; shares the backbone's modules."""
        return nn.Sequential(Normalize(self.preprocessing), *self._split_stages(cut)[:cut])

    def trainable_stages(self, cut: int) -> nn.Sequential:
        """Those activations to feature maps (then `embed_maps`); shares the backbone's modules."""
        return nn.Sequential(*self._split_stages(cut)[cut:], ToMaps(self.backbone))

    def stage_costs(self, size: int | None = None) -> list[StageCost]:
        """Parameters, multiply-accumulates and output shape of each stage for one image."""
        self._split_stages(0)
        return stage_costs(self.named_stages or (), size or self.preprocessing.size)

    def default_frozen_stages(self) -> int:
        """How many stages `partial` training freezes: the backbone's measured cut, or else the fewest that
        leave at most a third of the multiply-accumulates to train (a backward costs two forward passes)."""
        entry = backbones.BACKBONES.get(self.config.backbone)
        if entry is not None and entry.frozen_stages is not None:
            return entry.frozen_stages
        macs = [cost.macs for cost in self.stage_costs()]
        return next(cut for cut in range(1, len(macs) + 1) if sum(macs[cut:]) <= sum(macs) / 3)

    def set_projection(self, weight_DF: Tensor, bias_D: Tensor) -> None:
        """Copies a closed-form start (see `whitening`) into the projection."""
        projection = self.projection
        if not isinstance(projection, nn.Linear) or projection.bias is None:
            raise ArgumentError("this embedder has no projection with a bias; build it with an embedding_dim")
        if weight_DF.shape != projection.weight.shape:
            raise ArgumentError(
                f"a projection of shape {tuple(weight_DF.shape)} does not fit this embedder's "
                f"{tuple(projection.weight.shape)}"
            )
        with torch.no_grad():
            projection.weight.copy_(weight_DF)
            projection.bias.copy_(bias_D)

    def _split_stages(self, cut: int) -> list[nn.Module]:
        stages = self.stages
        if stages is None:
            raise ArgumentError(
                f"backbone '{self.config.backbone}' ({type(self.backbone).__name__}) is not known as a chain "
                "of stages, which partial training needs; train it with mode 'frozen' or 'finetune'"
            )
        if not 0 <= cut <= len(stages):
            raise ArgumentError(
                f"cut {cut} is not in 0..{len(stages)}, the stages of '{self.config.backbone}'"
            )
        return stages


def build_embedder(
    backbone: str = "tf_efficientnet_lite0",
    *,
    weights: str | Path | None = None,
    pooling: str = "concat",
    k: int = 1,
    norm: str = "none",
    embedding_dim: int | None = 512,
    bias: bool = True,
    size: int | None = None,
    resize: int | None = None,
    seed: int = 0,
) -> Embedder:
    """An embedder with pretrained weights and a projection that is random until given a start.

    Args:
        backbone: of `backbones.BACKBONES` or of timm.
        weights: "package", "hub", "none", a file, or None for the backbone's own default.
        pooling: one of `pooling.POOLING_NAMES`.
        k: of `k_max`.
        norm: "none", "layer_norm" (no scale or shift) or "unit", after pooling.
        embedding_dim: width of the projection; None leaves it out.
        bias: whether the projection has one; closed-form starts need it.
        size: side of the input in pixels; None keeps the weights' own.
        resize: short side before the central crop; given `size` alone, resize = size: no crop.
        seed: of random weights and of the projection; torch's global random state is left as it was.
    """
    loaded = load_backbone(backbone, weights, seed=seed)
    config = EmbedderConfig(
        backbone=backbone,
        pooling=pooling,
        k=k,
        norm=norm,
        embedding_dim=embedding_dim,
        bias=bias,
        preprocessing=sized(loaded.preprocessing, size, resize),
        weights_origin=loaded.origin,
        weights_license=loaded.license,
    )
    return assemble(loaded, config, seed=seed)


def assemble(loaded: Loaded, config: EmbedderConfig, *, seed: int = 0) -> Embedder:
    """The embedder of a ready backbone; the projection is drawn from `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Embedder(loaded.backbone, config, channels=loaded.channels)
