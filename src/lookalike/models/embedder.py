"""The network that turns images into embeddings: backbone -> pooling -> norm -> projection.

Images are uint8 RGB and are normalized inside, with the preprocessing that belongs to the weights, so no caller can
forget or repeat it. `forward` averages the views of the configuration, so whoever embeds sees what was measured;
training uses the parts and sees one view at a time. Embeddings are raw float32 vectors, to be compared by cosine
similarity (ProxyNCA++ trains and compares raw ones).

Every timm backbone is a chain of stages (see `stages`): `frozen_part(n)` computes the activations after the first
`n` of them, `trainable_stages(n)` continues from there.
"""

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from lookalike.config.schema import ModelSettings
from lookalike.errors import ArgumentError
from lookalike.models import pooling
from lookalike.models.backbones import FROZEN_STAGES
from lookalike.models.config import PRECISIONS, EmbedderConfig
from lookalike.models.pretrained import load_backbone
from lookalike.models.stages import (
    Extras,
    StageCost,
    StageLayout,
    build_stages,
    find_extras,
    find_layout,
    stage_costs,
)
from lookalike.models.trace import features, parameter_type
from lookalike.models.views import VIEWS, image_views, mean_of_views
from lookalike.preprocessing import Normalize, Preprocessing
from lookalike.utils.validation import check_at_least, check_choice

DEFAULTS = ModelSettings()
TRAINED_SHARE = 1 / 3
"""Share of the multiply-accumulates that trains by default: a backward pass costs about two forward passes."""


class ToMaps(nn.Module):
    """Features of any backbone (maps, channels-last maps, tokens) as maps (B, F, H, W)."""

    def __init__(self, channels: int, *, prefix_tokens: int | None) -> None:
        super().__init__()
        self.channels = channels
        self.prefix_tokens = prefix_tokens

    def forward(self, features_BX: Tensor) -> Tensor:
        if features_BX.ndim == 2:
            return features_BX[:, :, None, None]
        if features_BX.ndim == 4:
            is_first = features_BX.shape[1] == self.channels
            return features_BX if is_first else features_BX.permute(0, 3, 1, 2)
        count = features_BX.shape[1]
        patches = count - (self.prefix_tokens or 0)
        side = int(patches**0.5)  # images are square, and so are maps of patches
        patches_BPF = features_BX[:, count - side * side :]
        return patches_BPF.transpose(1, 2).reshape(-1, self.channels, side, side)


class FrozenStages(nn.Sequential):
    """uint8 images to the activations after the first stages, float32; shares the backbone's modules."""

    def __init__(self, preprocessing: Preprocessing, stages: list[nn.Module]) -> None:
        super().__init__(Normalize(preprocessing), *stages)
        self.preprocessing = preprocessing

    def forward(self, images_BCHW: Tensor) -> Tensor:
        normalize, *stages = self
        activations: Tensor = normalize(images_BCHW).to(parameter_type(self))
        for stage in stages:
            activations = stage(activations)
        return activations.float()


class Embedder(nn.Module):
    """Images (B, 3, H, W) uint8 RGB to embeddings (B, embedding_dim) float32, not of unit length.

    Args:
        backbone: a network without its classifier; its `forward_features`, or else its forward, gives features.
        config: how its features become an embedding.

    Attributes:
        pooled_dim: width of the pooled vector, which the projection reads.
        embedding_dim: width of an embedding.
    """

    def __init__(self, backbone: nn.Module, config: EmbedderConfig) -> None:
        super().__init__()
        check_choice("norm", config.norm, pooling.NORM_NAMES)
        check_at_least("k", config.k, 1)
        self.config = config
        self.pooled_dim = pooling.pooled_width(config.channels, config.pooling)
        self.embedding_dim = self.pooled_dim if config.embedding_dim is None else config.embedding_dim
        check_at_least("embedding_dim", self.embedding_dim, 1)
        self.backbone = backbone
        self.projection: nn.Module = nn.Identity()
        if config.embedding_dim is not None:
            self.projection = nn.Linear(self.pooled_dim, self.embedding_dim, bias=config.bias)
        self._layout: StageLayout | None = None
        self._extras: dict[tuple[torch.device, torch.dtype], Extras] = {}

    @property
    def channels(self) -> int:
        """Channels of the backbone's feature maps."""
        return self.config.channels

    @property
    def preprocessing(self) -> Preprocessing:
        """What the backbone expects of an image."""
        return self.config.preprocessing

    def normalize_input(self, images_BCHW: Tensor) -> Tensor:
        """uint8 RGB images as the backbone's float input."""
        out: Tensor = Normalize(self.preprocessing)(images_BCHW)
        return out.to(parameter_type(self.backbone))

    def feature_maps(self, images_BCHW: Tensor) -> Tensor:
        """The backbone's last maps, (B, channels, h, w)."""
        out: Tensor = self._to_maps()(features(self.backbone, self.normalize_input(images_BCHW)))
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
        return self.project(mean_of_views([self.pool(self.feature_maps(view)) for view in views]))

    def set_views(self, views: int) -> None:
        """Makes `forward` see the image alone (1), or average it with its mirror image (2), at twice the cost."""
        if views not in VIEWS:
            raise ArgumentError(
                f"views is {views}; it is 1 (the image) or 2 (the image and its mirror image)"
            )
        self.config = replace(self.config, views=views)

    def set_precision(self, precision: str) -> None:
        """Makes copies for inference (see `fuse`) compute in "float32" or, where the device does, in "bfloat16"."""
        check_choice("precision", precision, PRECISIONS)
        self.config = replace(self.config, precision=precision)

    @property
    def named_stages(self) -> tuple[tuple[str, nn.Module], ...]:
        """Name and module of the backbone's stages, whose composition is its feature extractor.

        Raises:
            ArgumentError: the backbone is no chain of stages.
        """
        layout = self._found_layout()
        extras: Extras = {}
        if layout.with_extras:
            weight = next(self.backbone.parameters())
            place = weight.device, weight.dtype
            if place not in self._extras:
                self._extras[place] = find_extras(self.backbone, layout, self.preprocessing.size)
            extras = self._extras[place]
        return build_stages(self.backbone, layout, extras)

    @property
    def stages(self) -> list[nn.Module]:
        """The modules of `named_stages`."""
        return [stage for _, stage in self.named_stages]

    def frozen_part(self, frozen_stages: int) -> FrozenStages:
        """uint8 images to the activations after the first `frozen_stages` stages."""
        return FrozenStages(self.preprocessing, self._checked_stages(frozen_stages)[:frozen_stages])

    def trainable_stages(self, frozen_stages: int) -> nn.Sequential:
        """Those activations to feature maps (then `embed_maps`)."""
        return nn.Sequential(*self._checked_stages(frozen_stages)[frozen_stages:], self._to_maps())

    def stage_costs(self, size: int | None = None) -> list[StageCost]:
        """Parameters, multiply-accumulates and output shape of each stage for one image."""
        return stage_costs(self.backbone, self._found_layout(), size or self.preprocessing.size)

    def default_frozen_stages(self) -> int:
        """How many stages mode `partial` freezes: the measured number, or else the fewest that leave at most a third
        of the multiply-accumulates to train."""
        if (measured := FROZEN_STAGES.get(self.config.architecture.name)) is not None:
            return measured
        macs = [cost.macs for cost in self.stage_costs()]
        return next(n for n in range(1, len(macs) + 1) if sum(macs[n:]) <= sum(macs) * TRAINED_SHARE)

    def set_projection(self, weight_DF: Tensor, bias_D: Tensor) -> None:
        """Copies a projection computed in closed form (see `whitening`)."""
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

    def _found_layout(self) -> StageLayout:
        if self._layout is None:
            self._layout = find_layout(self.backbone, self.preprocessing.size)
        if self._layout is None:
            raise ArgumentError(
                f"backbone '{self.config.backbone}' ({type(self.backbone).__name__}) is not a chain of stages, which "
                "mode 'partial' needs; train it with train.mode=frozen or train.mode=finetune"
            )
        return self._layout

    def _to_maps(self) -> ToMaps:
        return ToMaps(self.channels, prefix_tokens=getattr(self.backbone, "num_prefix_tokens", None))

    def _checked_stages(self, frozen_stages: int) -> list[nn.Module]:
        stages = self.stages
        if not 0 <= frozen_stages <= len(stages):
            raise ArgumentError(
                f"frozen_stages is {frozen_stages}, but backbone '{self.config.backbone}' has {len(stages)} stages"
            )
        return stages


def build_embedder(
    backbone: str = DEFAULTS.backbone,
    *,
    weights: str | Path = DEFAULTS.weights,
    pooling: str = DEFAULTS.pooling,
    k: int = DEFAULTS.pooling_k,
    norm: str = DEFAULTS.norm,
    embedding_dim: int | None = 512,
    bias: bool = True,
    size: int | None = None,
    resize: int | None = None,
    seed: int = 0,
) -> Embedder:
    """An embedder with pretrained weights and a random projection; the defaults are those of `ModelSettings`.

    Args:
        backbone: a timm name, "hf-hub:OWNER/NAME", "local-dir:FOLDER", "googlenet" or "bn_inception".
        weights: "auto", "package", "hub", "none" or a file (see `pretrained`).
        pooling: one of `pooling.POOLING_NAMES`.
        k: of `k_max`.
        norm: "none", "layer_norm" (no scale or shift) or "unit", after pooling.
        embedding_dim: width of the projection; None leaves it out.
        bias: whether the projection has one; projections in closed form need it.
        size: side of the input in pixels; None: that of the weights.
        resize: short side before the central crop; given `size` alone, resize = size: no crop.
        seed: of random weights and of the projection; torch's global random state is left as it was.
    """
    loaded = load_backbone(backbone, weights, seed=seed, size=size)
    config = EmbedderConfig(
        backbone=backbone,
        architecture=loaded.facts.architecture,
        channels=loaded.facts.channels,
        pooling=pooling,
        k=k,
        norm=norm,
        embedding_dim=embedding_dim,
        bias=bias,
        preprocessing=loaded.preprocessing.at_size(size, resize),
        weights_origin=loaded.origin,
        weights_license=loaded.license,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Embedder(loaded.backbone, config)
