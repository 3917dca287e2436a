"""Proxy-Anchor: each proxy is an anchor that pulls its own samples, hardest first, and pushes others away.

Source: Kim, Kim, Cho and Kwak, "Proxy Anchor Loss for Deep Metric Learning", CVPR 2020.
"""

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from lookalike.losses.chunked import ChunkedProxyLoss
from lookalike.losses.kernels.autograd import Compute
from lookalike.losses.kernels.common import WHOLE, Part
from lookalike.losses.kernels.proxy_anchor import proxy_anchor_in_chunks
from lookalike.utils.validation import check_positive


def proxy_anchor(sims_BC: Tensor, labels_B: Tensor, *, margin: float, scale: float) -> Tensor:
    """Positive term, a mean over the classes in the batch, plus negative term, a mean over all classes.

    log(1 + sum exp) is softplus(logsumexp): it cannot overflow, and an empty sum gives 0.
    """
    own_B = -scale * (sims_BC.gather(1, labels_B[:, None])[:, 0] - margin)
    same_BB = labels_B[:, None] == labels_B
    pull_B = F.softplus(torch.where(same_BB, own_B, -torch.inf).logsumexp(dim=1), threshold=40)
    share_B = 1 / same_BB.sum(dim=1).to(pull_B)  # a class in the batch weighs 1 in all
    pushes_BC = (scale * (sims_BC + margin)).scatter(1, labels_B[:, None], -torch.inf)
    push_C = F.softplus(pushes_BC.logsumexp(dim=0), threshold=40)
    return (pull_B * share_B).sum() / share_B.sum() + push_C.mean()


class ProxyAnchor(ChunkedProxyLoss):
    """Proxy-Anchor loss.

    L = 1/|P+| sum_{p in P+} log(1 + sum_{i: y_i = p} exp(-scale*(s_ip - margin)))
      + 1/C   sum_p          log(1 + sum_{i: y_i != p} exp(scale*(s_ip + margin)))

    s_ip is a cosine, P+ the proxies whose class occurs in the batch.

    Args:
        margin: delta in the paper.
        scale: alpha in the paper.
        proxy_init, generator: see `ProxyLoss`.

    The authors' code takes plain exponentials, which overflow in half precision, and breaks with two classes.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        margin: float = 0.1,
        scale: float = 32.0,
        proxy_init: str = "kaiming",
        generator: Generator | None = None,
    ) -> None:
        check_positive("scale", scale)
        super().__init__(num_classes, embedding_dim, proxy_init=proxy_init, generator=generator)
        self.margin = margin
        self.scale = scale

    def dense(self, similarities: Tensor, labels: Tensor) -> Tensor:
        return proxy_anchor(similarities, labels, margin=self.margin, scale=self.scale)

    def computation(self, labels: Tensor, part: Part = WHOLE) -> Compute:
        return proxy_anchor_in_chunks(labels, margin=self.margin, scale=self.scale, part=part)
