"""Proxy-NCA and ProxyNCA++: a softmax of distances to proxies.

Five different functions are called "Proxy-NCA"; `ProxyNCA` covers them, docs/reference/losses.md lists them.
Squared Euclidean distances of unit vectors are 2 - 2*cosine, so all of them are functions of the cosines.
"""

from torch import Generator

from lookalike.errors import ArgumentError
from lookalike.losses.search_range import SearchRange
from lookalike.losses.softmax import SoftmaxProxyLoss
from lookalike.utils.validation import check_between, check_positive


class ProxyNCA(SoftmaxProxyLoss):
    """Proxy-NCA: mean_i [d_iy/T + log sum_{c != y} exp(-d_ic/T)], d the squared distance of unit vectors.

    Args:
        temperature: T; 1 in the paper. Code that multiplies both vectors by a scale has T = 1/scale^2.
        include_positive: also sum over the class itself, which makes it a softmax and keeps it above 0. The
            paper's sum leaves it out, and the loss can be negative.
        label_smoothing: part of the target given to the other classes, e/(C-1) each; softmax form only.
        num_classes, embedding_dim, generator: see `ProxyLoss`.

    A known implementation (dichotomies/proxy-nca) uses the softmax form with label smoothing 0.1 and lengths
    (3, 3) or (1, 8) for embeddings and proxies: T = 1/9 and 1/8.
    """

    paper = "Movshovitz-Attias et al., No Fuss Distance Metric Learning using Proxies, ICCV 2017"
    proxy_init = "randn/8"
    search_space = (SearchRange("temperature", 0.01, 100, inverse=True),)

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        temperature: float = 1.0,
        include_positive: bool = False,
        label_smoothing: float = 0.0,
        generator: Generator | None = None,
    ) -> None:
        check_positive("temperature", temperature)
        check_between("label_smoothing", label_smoothing, 0, 1)
        if label_smoothing > 0 and not include_positive:
            raise ArgumentError(
                f"label_smoothing is {label_smoothing}; it needs the softmax form: set include_positive=True"
            )
        super().__init__(num_classes, embedding_dim, generator=generator)
        self.temperature = temperature
        self.include_positive = include_positive
        self.label_smoothing = label_smoothing

    @property
    def logit_scale(self) -> float:
        """-d/T is 2/T times the cosine, up to a constant that cancels in the loss."""
        return 2 / self.temperature


class ProxyNCAPlusPlus(SoftmaxProxyLoss):
    """ProxyNCA++: mean_i -log softmax_c(-d_ic/T)[y_i], d the squared distance of unit vectors.

    The same function as NormSoftmax at temperature T/2. The gradient by a cosine is 2/T * (p - [c = y]) / B.

    Args:
        temperature: T; 1/9 in the paper, where the authors' code multiplies both vectors by 3.
        num_classes, embedding_dim, generator: see `ProxyLoss`.

    The authors' code clamps squared distances at 0, where the gradient is lost; cosines have no such corner.
    """

    paper = "Teh, DeVries and Taylor, ProxyNCA++: Revisiting and Revitalizing Proxy NCA, ECCV 2020"
    proxy_init = "randn/8"
    search_space = (SearchRange("temperature", 0.01, 100, inverse=True, source="ours"),)

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        temperature: float = 1 / 9,
        generator: Generator | None = None,
    ) -> None:
        check_positive("temperature", temperature)
        super().__init__(num_classes, embedding_dim, generator=generator)
        self.temperature = temperature

    @property
    def logit_scale(self) -> float:
        """-d/T is 2/T times the cosine, up to a constant that cancels in the loss."""
        return 2 / self.temperature
