"""Proxy-NCA and ProxyNCA++: pull each embedding to its own proxy, from the others, by a softmax of distances.

Five different functions go by the name "Proxy-NCA"; `ProxyNCA` covers them, `docs/losses.md` tells which.
Squared Euclidean distances of unit vectors are 2 - 2*cosine, so all of them are functions of the cosines.

Sources: Movshovitz-Attias et al., "No Fuss Distance Metric Learning using Proxies", ICCV 2017; Teh, DeVries
and Taylor, "ProxyNCA++", ECCV 2020.
"""

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from lookalike.errors import ArgumentError
from lookalike.losses.chunked import ChunkedProxyLoss
from lookalike.losses.kernels.autograd import Compute
from lookalike.losses.kernels.common import WHOLE, Part
from lookalike.losses.kernels.softmax import Softmax, softmax_in_chunks
from lookalike.utils.validation import check_between, check_positive


def proxy_nca(
    sims_BC: Tensor,
    labels_B: Tensor,
    *,
    temperature: float,
    include_positive: bool = True,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Mean over the batch of d_y/T + log sum_c exp(-d_c/T), with d = 2 - 2*cosine.

    The sum runs over all classes when `include_positive`, else over the wrong ones. With label smoothing e
    the target distribution is 1-e for the class and e/(C-1) for each other one.
    """
    logits_BC = sims_BC * (2 / temperature)  # the constant -2/T cancels
    if include_positive and label_smoothing == 0:
        return F.cross_entropy(logits_BC, labels_B)
    own_B = logits_BC.gather(1, labels_B[:, None])[:, 0]
    if not include_positive:
        return (logits_BC.scatter(1, labels_B[:, None], -torch.inf).logsumexp(dim=1) - own_B).mean()
    others_B = (logits_BC.sum(dim=1) - own_B) / (logits_BC.shape[1] - 1)
    target_B = (1 - label_smoothing) * own_B + label_smoothing * others_B
    return (logits_BC.logsumexp(dim=1) - target_B).mean()


class ProxyNCA(ChunkedProxyLoss):
    """Proxy-NCA: mean_i [d_iy/T + log sum_{c != y} exp(-d_ic/T)], d the squared distance of unit vectors.

    Args:
        temperature: T; 1 in the paper. Code that multiplies both vectors by a scale has T = 1/scale^2.
        include_positive: also sum over the class itself, which makes it a softmax and keeps it above 0. The
            paper's sum leaves it out, and the loss can be negative.
        label_smoothing: share of the target given to the other classes, e/(C-1) each; softmax form only.
        proxy_init, generator: see `ProxyLoss`.

    A known implementation (dichotomies/proxy-nca) uses the softmax form with label smoothing 0.1 and lengths
    (3, 3) or (1, 8) for embeddings and proxies: T = 1/9 and 1/8.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        temperature: float = 1.0,
        include_positive: bool = False,
        label_smoothing: float = 0.0,
        proxy_init: str = "randn/8",
        generator: Generator | None = None,
    ) -> None:
        check_positive("temperature", temperature)
        check_between("label_smoothing", label_smoothing, 0, 1)
        if label_smoothing > 0 and not include_positive:
            raise ArgumentError(
                f"label_smoothing is {label_smoothing}; it needs the softmax form: set include_positive=True"
            )
        super().__init__(num_classes, embedding_dim, proxy_init=proxy_init, generator=generator)
        self.temperature = temperature
        self.include_positive = include_positive
        self.label_smoothing = label_smoothing

    def dense(self, similarities: Tensor, labels: Tensor) -> Tensor:
        return proxy_nca(
            similarities,
            labels,
            temperature=self.temperature,
            include_positive=self.include_positive,
            label_smoothing=self.label_smoothing,
        )

    def computation(self, labels: Tensor, part: Part = WHOLE) -> Compute:
        settings = Softmax(
            2 / self.temperature, include_own=self.include_positive, label_smoothing=self.label_smoothing
        )
        return softmax_in_chunks(labels, settings, part)


class ProxyNCAPlusPlus(ChunkedProxyLoss):
    """ProxyNCA++: mean_i -log softmax_c(-d_ic/T)[y_i], d the squared distance of unit vectors.

    The same function as NormSoftmax at temperature T/2. The gradient by a cosine is 2/T * (q - [c = y]) / B.

    Args:
        temperature: T; 1/9 in the paper, where the authors' code multiplies both vectors by 3.
        proxy_init, generator: see `ProxyLoss`.

    The authors' code cuts squared distances off at 0, where the gradient is lost; cosines have no corner.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        temperature: float = 1 / 9,
        proxy_init: str = "randn/8",
        generator: Generator | None = None,
    ) -> None:
        check_positive("temperature", temperature)
        super().__init__(num_classes, embedding_dim, proxy_init=proxy_init, generator=generator)
        self.temperature = temperature

    def dense(self, similarities: Tensor, labels: Tensor) -> Tensor:
        return proxy_nca(similarities, labels, temperature=self.temperature)

    def computation(self, labels: Tensor, part: Part = WHOLE) -> Compute:
        return softmax_in_chunks(labels, Softmax(2 / self.temperature), part)
