"""NormSoftmax: classification with unit class weights and a temperature. A proxy is a class weight."""

from torch import Generator

from lookalike.losses.search_range import SearchRange
from lookalike.losses.softmax import SoftmaxProxyLoss
from lookalike.utils.validation import check_positive


class NormSoftmax(SoftmaxProxyLoss):
    """NormSoftmax: mean_i -log softmax_c(s_ic/temperature)[y_i], s a cosine similarity.

    Args:
        temperature: sigma in the paper.
        num_classes, embedding_dim, generator: see `ProxyLoss`.

    The authors' network normalizes the embeddings itself, after a layer norm without learned factors; here
    embeddings of any length give the same loss.
    """

    paper = "Zhai and Wu, Classification is a Strong Baseline for Deep Metric Learning, BMVC 2019"
    proxy_init = "uniform"
    search_space = (SearchRange("temperature", 0.01, 100, log=True),)

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        temperature: float = 0.05,
        generator: Generator | None = None,
    ) -> None:
        check_positive("temperature", temperature)
        super().__init__(num_classes, embedding_dim, generator=generator)
        self.temperature = temperature

    @property
    def logit_scale(self) -> float:
        return 1 / self.temperature
