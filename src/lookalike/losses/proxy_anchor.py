"""Proxy-Anchor: each proxy is an anchor that attracts the samples of its class, hardest first, and repels others.

Shapes: B batch, K classes of a chunk (C when it holds all), T samples whose class is among these.
"""

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from lookalike.losses.chunked import ChunkedProxyLoss
from lookalike.losses.kernels.autograd import value_and_gradients
from lookalike.losses.kernels.chunks import Chunk
from lookalike.losses.search_range import SearchRange
from lookalike.utils.validation import check_positive


def proxy_anchor(sims_BK: Tensor, target_T: Tensor, chunk: Chunk, *, margin: float, scale: float) -> Tensor:
    """What the classes of a chunk add to the loss: their positive and their negative terms.

    `target_T` are the similarities to own classes; the entries of `sims_BK` for these have no influence.
    log(1 + sum exp) is softplus(logsumexp): it cannot overflow, and an empty sum gives 0.
    """
    positive_term_K = log_one_plus_sum_exp(-scale * (target_T - margin), chunk)
    negatives_BK = chunk.with_target(scale * sims_BK, -torch.inf)
    negative_term_K = F.softplus(negatives_BK.logsumexp(dim=0) + scale * margin, threshold=40)
    if chunk.weights_K is not None:
        negative_term_K = negative_term_K * chunk.weights_K
    return positive_term_K.sum() / chunk.present + negative_term_K.sum() / chunk.num_classes


def log_one_plus_sum_exp(logits_T: Tensor, chunk: Chunk) -> Tensor:
    """log(1 + sum_i exp(z_i)) over the samples of each class of a chunk (K,)."""
    zeros_K = logits_T.new_zeros(chunk.size)
    shift_K = zeros_K.scatter_reduce(0, chunk.columns_T, logits_T.detach(), "amax")  # at least 0, for the 1
    exps_T = (logits_T - shift_K.index_select(0, chunk.columns_T)).exp()
    return torch.expm1(-shift_K).index_add(0, chunk.columns_T, exps_T).log1p() + shift_K


class ProxyAnchor(ChunkedProxyLoss):
    """Proxy-Anchor loss.

    L = 1/|P+| sum_{p in P+} log(1 + sum_{i: y_i = p} exp(-scale*(s_ip - margin)))
      + 1/C   sum_p          log(1 + sum_{i: y_i != p} exp(scale*(s_ip + margin)))

    s_ip is a cosine similarity, P+ the proxies whose class occurs in the batch.

    Args:
        margin: delta in the paper.
        scale: alpha in the paper.
        num_classes, embedding_dim, generator: see `ProxyLoss`.

    The authors' code takes plain exponentials, which overflow in half precision, and breaks with two classes.
    """

    paper = "Kim, Kim, Cho and Kwak, Proxy Anchor Loss for Deep Metric Learning, CVPR 2020"
    proxy_init = "kaiming"
    search_space = (
        SearchRange("scale", 0.01, 100, source="ours"),
        SearchRange("margin", 0, 1, source="ours"),
    )

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        margin: float = 0.1,
        scale: float = 32.0,
        generator: Generator | None = None,
    ) -> None:
        check_positive("scale", scale)
        super().__init__(num_classes, embedding_dim, generator=generator)
        self.margin = margin
        self.scale = scale

    def loss_from_similarities(self, similarities: Tensor, labels: Tensor) -> Tensor:
        chunk = Chunk.whole(labels, self.num_classes)
        target_T = chunk.target(similarities)
        return proxy_anchor(similarities, target_T, chunk, margin=self.margin, scale=self.scale)

    def chunk_value_and_gradient(
        self, sims_BQ: Tensor, chunk: Chunk, log_sums_B: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        value, (gradient_BQ, to_target_T) = value_and_gradients(
            lambda sims_BQ, target_T: proxy_anchor(
                sims_BQ, target_T, chunk, margin=self.margin, scale=self.scale
            ),
            sims_BQ,
            chunk.target(sims_BQ),
        )
        return value, chunk.add_to_target_(gradient_BQ, to_target_T)
