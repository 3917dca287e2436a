"""CosFace and ArcFace: classification on the unit sphere with a margin on the target logit.

CosFace subtracts the margin from the cosine of the sample's own class, ArcFace adds it to the angle.
"""

import math

import torch
from torch import Generator, Tensor

from lookalike.losses.kernels.chunks import Chunk
from lookalike.losses.search_range import SearchRange
from lookalike.losses.softmax import SoftmaxProxyLoss
from lookalike.utils.validation import check_at_least, check_between, check_positive


def add_angle(cosines: Tensor, margin: float) -> Tensor:
    """cos(angle + margin) of the angles of `cosines`.

    An angle that the margin would carry past pi gets cosine - margin*sin(margin), which keeps falling. The
    sine is kept above 0, so that an embedding on its proxy has a finite gradient.
    """
    sines = (1 - cosines**2).clamp_min(1e-12).sqrt()
    turned = cosines * math.cos(margin) - sines * math.sin(margin)
    return torch.where(cosines >= -math.cos(margin), turned, cosines - margin * math.sin(margin))


class CosFace(SoftmaxProxyLoss):
    """CosFace: mean_i -log softmax_c(scale*(s_ic - margin*[c = y_i]))[y_i].

    Args:
        margin: m in the paper.
        scale: s in the paper.
        num_classes, embedding_dim, generator: see `ProxyLoss`.
    """

    paper = "Wang et al., CosFace: Large Margin Cosine Loss for Deep Face Recognition, CVPR 2018"
    proxy_init = "xavier"
    search_space = (SearchRange("margin", 0, 1), SearchRange("scale", 0.01, 200))

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        margin: float = 0.35,
        scale: float = 64.0,
        generator: Generator | None = None,
    ) -> None:
        check_at_least("margin", margin, 0)
        check_positive("scale", scale)
        super().__init__(num_classes, embedding_dim, generator=generator)
        self.margin = margin
        self.scale = scale

    @property
    def logit_scale(self) -> float:
        return self.scale

    def class_similarities(self, sims_BQ: Tensor, chunk: Chunk) -> Tensor:
        return chunk.with_target(sims_BQ, chunk.target(sims_BQ) - self.margin)


class ArcFace(SoftmaxProxyLoss):
    """ArcFace: mean_i -log softmax_c(scale*cos(angle_ic + margin*[c = y_i]))[y_i].

    Args:
        margin: m in the paper, in radians, 0 to pi/2; pytorch-metric-learning takes degrees.
        scale: s in the paper.
        num_classes, embedding_dim, generator: see `ProxyLoss`.
    """

    paper = "Deng et al., ArcFace: Additive Angular Margin Loss for Deep Face Recognition, CVPR 2019"
    proxy_init = "xavier"
    search_space = (
        SearchRange("margin", 0, math.pi / 2),
        SearchRange("scale", 0.01, 200, source="ours"),
    )

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        margin: float = 0.5,
        scale: float = 64.0,
        generator: Generator | None = None,
    ) -> None:
        check_between("margin (radians)", margin, 0, math.pi / 2)
        check_positive("scale", scale)
        super().__init__(num_classes, embedding_dim, generator=generator)
        self.margin = margin
        self.scale = scale

    @property
    def logit_scale(self) -> float:
        return self.scale

    def class_similarities(self, sims_BQ: Tensor, chunk: Chunk) -> Tensor:
        return chunk.with_target(sims_BQ, add_angle(chunk.target(sims_BQ), self.margin))
