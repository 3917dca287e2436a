"""SoftTriple: several centers per class, a soft maximum over them, and a term that merges those not needed.

Shapes: B batch, K classes of a chunk (C when it holds all), N centers per class, Q = K*N, D dimension.
"""

from torch import Generator, Tensor

from lookalike.losses.functional import full_precision, unit_rows
from lookalike.losses.kernels.chunks import Chunk
from lookalike.losses.search_range import SearchRange
from lookalike.losses.softmax import SoftmaxProxyLoss
from lookalike.utils.validation import check_at_least, check_positive


def soft_similarities(sims_BQ: Tensor, *, centers_per_class: int, gamma: float) -> Tensor:
    """Similarities to the centers of a class, averaged by the softmax of similarity/gamma: (B, Q) -> (B, K)."""
    sims_BKN = sims_BQ.view(len(sims_BQ), -1, centers_per_class)
    sims_BNK = sims_BKN.transpose(1, 2).contiguous()  # over few numbers a softmax is faster along columns
    return ((sims_BNK / gamma).softmax(dim=1) * sims_BNK).sum(dim=1)


def center_spread(centers_QD: Tensor, *, centers_per_class: int, chunk: Chunk) -> Tensor:
    """Half the mean distance of two centers of a class: what the classes of a chunk add to it.

    A distance is sqrt(2 + 1e-5 - 2*cosine), as in the authors' code: never 0, so its gradient is finite.
    """
    with full_precision(centers_QD):
        unit_KND = unit_rows(centers_QD).view(-1, centers_per_class, centers_QD.shape[1])
        distances_KNN = (2 + 1e-5 - 2 * unit_KND @ unit_KND.transpose(1, 2)).sqrt()
    sums_K = distances_KNN.triu(diagonal=1).sum(dim=(1, 2))
    if chunk.weights_K is not None:
        sums_K = sums_K * chunk.weights_K
    return sums_K.sum() / (chunk.num_classes * centers_per_class * (centers_per_class - 1))


class SoftTriple(SoftmaxProxyLoss):
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
        num_classes, embedding_dim, generator: see `ProxyLoss`.

    The authors' code computes all P*P center similarities and takes embeddings that are unit vectors already.
    """

    paper = "Qian et al., SoftTriple Loss: Deep Metric Learning Without Triplet Sampling, ICCV 2019"
    proxy_init = "kaiming_uniform"
    search_space = (
        SearchRange("scale", 0.01, 100),
        SearchRange("gamma", 0.01, 100, inverse=True),  # multiplied there, divided in the paper and here
        SearchRange("center_weight", 0, 1),
        SearchRange("margin", 0, 1),
    )

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
        generator: Generator | None = None,
    ) -> None:
        check_at_least("centers_per_class", centers_per_class, 1)
        check_positive("scale", scale)
        check_positive("gamma", gamma)
        check_at_least("margin", margin, 0)
        check_at_least("center_weight", center_weight, 0)
        super().__init__(num_classes, embedding_dim, proxies_per_class=centers_per_class, generator=generator)
        self.centers_per_class = centers_per_class
        self.scale = scale
        self.gamma = gamma
        self.margin = margin
        self.center_weight = center_weight

    @property
    def logit_scale(self) -> float:
        return self.scale

    def class_similarities(self, sims_BQ: Tensor, chunk: Chunk) -> Tensor:
        soft_BK = soft_similarities(sims_BQ, centers_per_class=self.centers_per_class, gamma=self.gamma)
        return chunk.with_target(soft_BK, chunk.target(soft_BK) - self.margin)

    def proxy_term(self, proxies_QD: Tensor, chunk: Chunk) -> Tensor | None:
        if self.centers_per_class == 1 or self.center_weight == 0:
            return None
        spread = center_spread(proxies_QD, centers_per_class=self.centers_per_class, chunk=chunk)
        return self.center_weight * spread
