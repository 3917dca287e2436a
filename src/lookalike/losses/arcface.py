"""CosFace and ArcFace: classification on the unit sphere that asks the own class to win by a margin.

CosFace takes the margin off the cosine, ArcFace adds it to the angle.

Sources: Wang et al., "CosFace: Large Margin Cosine Loss for Deep Face Recognition", CVPR 2018; Deng et al.,
"ArcFace: Additive Angular Margin Loss for Deep Face Recognition", CVPR 2019.
"""

import math

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from lookalike.losses.chunked import ChunkedProxyLoss
from lookalike.losses.kernels.autograd import Compute
from lookalike.losses.kernels.common import WHOLE, Part
from lookalike.losses.kernels.softmax import Softmax, softmax_in_chunks
from lookalike.utils.validation import check_at_least, check_between, check_positive


def cos_face(sims_BC: Tensor, labels_B: Tensor, *, margin: float, scale: float) -> Tensor:
    """Mean cross-entropy of scale * (s_c - margin*[c = y])."""
    own_B1 = sims_BC.gather(1, labels_B[:, None])
    return F.cross_entropy(scale * sims_BC.scatter(1, labels_B[:, None], own_B1 - margin), labels_B)


def arc_face(sims_BC: Tensor, labels_B: Tensor, *, margin: float, scale: float) -> Tensor:
    """Mean cross-entropy of scale * s_c, where the own cosine is that of its angle plus the margin.

    An angle that the margin would carry past pi gets s - margin*sin(margin) instead, which keeps falling. The
    sine is held off 0, so that an embedding on its proxy has a finite gradient.
    """
    moved_B1 = moved_by_angle(sims_BC.gather(1, labels_B[:, None]), margin)
    return F.cross_entropy(scale * sims_BC.scatter(1, labels_B[:, None], moved_B1), labels_B)


def moved_by_angle(own: Tensor, margin: float) -> Tensor:
    """Cosines of the angles of the cosines `own` plus the margin, as in `arc_face`."""
    sine = (1 - own**2).clamp_min(1e-12).sqrt()
    turned = own * math.cos(margin) - sine * math.sin(margin)
    return torch.where(own >= -math.cos(margin), turned, own - margin * math.sin(margin))


class CosFace(ChunkedProxyLoss):
    """CosFace: mean_i -log softmax_c(scale*(s_ic - margin*[c = y_i]))[y_i].

    Args:
        margin: m in the paper, taken off the own cosine.
        scale: s in the paper.
        proxy_init, generator: see `ProxyLoss`.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        margin: float = 0.35,
        scale: float = 64.0,
        proxy_init: str = "xavier",
        generator: Generator | None = None,
    ) -> None:
        check_at_least("margin", margin, 0)
        check_positive("scale", scale)
        super().__init__(num_classes, embedding_dim, proxy_init=proxy_init, generator=generator)
        self.margin = margin
        self.scale = scale

    def dense(self, similarities: Tensor, labels: Tensor) -> Tensor:
        return cos_face(similarities, labels, margin=self.margin, scale=self.scale)

    def computation(self, labels: Tensor, part: Part = WHOLE) -> Compute:
        settings = Softmax(self.scale, own_margin=self.margin)
        return softmax_in_chunks(labels, settings, part)


class ArcFace(ChunkedProxyLoss):
    """ArcFace: mean_i -log softmax_c(scale*cos(angle_ic + margin*[c = y_i]))[y_i].

    Args:
        margin: m in the paper, in radians, 0 to pi/2.
        scale: s in the paper.
        proxy_init, generator: see `ProxyLoss`.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        margin: float = 0.5,
        scale: float = 64.0,
        proxy_init: str = "xavier",
        generator: Generator | None = None,
    ) -> None:
        check_between("margin (radians)", margin, 0, math.pi / 2)
        check_positive("scale", scale)
        super().__init__(num_classes, embedding_dim, proxy_init=proxy_init, generator=generator)
        self.margin = margin
        self.scale = scale

    def dense(self, similarities: Tensor, labels: Tensor) -> Tensor:
        return arc_face(similarities, labels, margin=self.margin, scale=self.scale)

    def computation(self, labels: Tensor, part: Part = WHOLE) -> Compute:
        settings = Softmax(self.scale, move_own=lambda own_B: moved_by_angle(own_B, self.margin))
        return softmax_in_chunks(labels, settings, part)
