"""SoftTriple: several centers of a class, a soft maximum over them, and a pull that merges those not needed.

Source: Qian et al., "SoftTriple Loss: Deep Metric Learning Without Triplet Sampling", ICCV 2019.
"""

from torch import Generator, Tensor

from lookalike.losses.arcface import cos_face
from lookalike.losses.base import full_precision, unit_rows
from lookalike.losses.chunked import ChunkedProxyLoss
from lookalike.losses.kernels.autograd import Compute
from lookalike.losses.kernels.common import WHOLE, Part
from lookalike.losses.kernels.soft_triple import soft_triple_in_chunks
from lookalike.utils.validation import check_at_least, check_positive


def soft_similarities(sims_BP: Tensor, *, centers_per_class: int, gamma: float) -> Tensor:
    """Cosines to the centers of a class, averaged by the softmax of cosine/gamma: (B, P) -> (B, C)."""
    sims_BCN = sims_BP.view(len(sims_BP), -1, centers_per_class)
    return ((sims_BCN / gamma).softmax(dim=2) * sims_BCN).sum(dim=2)


def soft_triple(
    sims_BP: Tensor, labels_B: Tensor, *, centers_per_class: int, scale: float, gamma: float, margin: float
) -> Tensor:
    """The part of the loss that sees the batch: CosFace on soft similarities."""
    soft_BC = soft_similarities(sims_BP, centers_per_class=centers_per_class, gamma=gamma)
    return cos_face(soft_BC, labels_B, margin=margin, scale=scale)


def center_spread(proxies_PD: Tensor, *, centers_per_class: int) -> Tensor:
    """Half the mean distance of two centers of a class; 0 with one center. Takes C*N*N numbers of memory.

    A distance is sqrt(2 + 1e-5 - 2*cosine), as in the authors' code: never 0, so its gradient is finite.
    """
    if centers_per_class == 1:
        return proxies_PD.new_zeros(())
    with full_precision(proxies_PD):
        unit_CND = unit_rows(proxies_PD).view(-1, centers_per_class, proxies_PD.shape[1])
        distances_CNN = (2 + 1e-5 - 2 * unit_CND @ unit_CND.transpose(1, 2)).sqrt()
    pairs = distances_CNN.numel() - len(proxies_PD)  # C*N*(N-1): each pair twice, without the diagonal
    return distances_CNN.triu(diagonal=1).sum() / pairs


class SoftTriple(ChunkedProxyLoss):
    """SoftTriple: CosFace on soft similarities, plus center_weight times the spread of the centers.

    S_ic = sum_n q_icn s_icn, q_icn = softmax_n(s_icn/gamma)
    L = mean_i -log softmax_c(scale*(S_ic - margin*[c = y_i]))[y_i]
      + center_weight * sum_c sum_{n < m} sqrt(2 + 1e-5 - 2 w_cn.w_cm) / (C*N*(N-1))

    Args:
        centers_per_class: K in the paper, N here.
        scale: lambda in the paper.
        gamma: temperature of the soft maximum.
        margin: delta in the paper.
        center_weight: tau in the paper.
        proxy_init, generator: see `ProxyLoss`; the authors draw uniformly within 1/sqrt(P) of 0.

    The authors' code computes all P*P center similarities and takes embeddings that are unit vectors already.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        centers_per_class: int = 10,
        scale: float = 20.0,
        gamma: float = 0.1,
        margin: float = 0.01,
        center_weight: float = 0.2,
        proxy_init: str = "kaiming_uniform",
        generator: Generator | None = None,
    ) -> None:
        check_at_least("centers_per_class", centers_per_class, 1)
        check_positive("scale", scale)
        check_positive("gamma", gamma)
        check_at_least("margin", margin, 0)
        check_at_least("center_weight", center_weight, 0)
        super().__init__(
            num_classes,
            embedding_dim,
            proxies_per_class=centers_per_class,
            proxy_init=proxy_init,
            generator=generator,
        )
        self.centers_per_class = centers_per_class
        self.scale = scale
        self.gamma = gamma
        self.margin = margin
        self.center_weight = center_weight

    def dense(self, similarities: Tensor, labels: Tensor) -> Tensor:
        value = soft_triple(
            similarities,
            labels,
            centers_per_class=self.centers_per_class,
            scale=self.scale,
            gamma=self.gamma,
            margin=self.margin,
        )
        spread = center_spread(self.proxies, centers_per_class=self.centers_per_class)
        return value + self.center_weight * spread

    def computation(self, labels: Tensor, part: Part = WHOLE) -> Compute:
        return soft_triple_in_chunks(
            labels,
            centers_per_class=self.centers_per_class,
            scale=self.scale,
            gamma=self.gamma,
            margin=self.margin,
            center_weight=self.center_weight,
            part=part,
        )
