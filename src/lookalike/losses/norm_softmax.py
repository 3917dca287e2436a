"""NormSoftmax: plain classification with unit class weights and a temperature. A proxy is a class weight.

Source: Zhai and Wu, "Classification is a Strong Baseline for Deep Metric Learning", BMVC 2019.
"""

from torch import Generator, Tensor
from torch.nn import functional as F

from lookalike.losses.chunked import ChunkedProxyLoss
from lookalike.losses.kernels.autograd import Compute
from lookalike.losses.kernels.common import WHOLE, Part
from lookalike.losses.kernels.softmax import Softmax, softmax_in_chunks
from lookalike.utils.validation import check_positive


def norm_softmax(sims_BC: Tensor, labels_B: Tensor, *, temperature: float) -> Tensor:
    """Mean over the batch of the cross-entropy of cosines divided by the temperature."""
    return F.cross_entropy(sims_BC / temperature, labels_B)


class NormSoftmax(ChunkedProxyLoss):
    """NormSoftmax: mean_i -log softmax_c(s_ic/temperature)[y_i], s a cosine.

    Args:
        temperature: sigma in the paper.
        proxy_init, generator: see `ProxyLoss`.

    The authors' network normalizes the embeddings itself, after a layer norm without learned factors; here
    embeddings of any norm give the same loss.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        temperature: float = 0.05,
        proxy_init: str = "uniform",
        generator: Generator | None = None,
    ) -> None:
        check_positive("temperature", temperature)
        super().__init__(num_classes, embedding_dim, proxy_init=proxy_init, generator=generator)
        self.temperature = temperature

    def dense(self, similarities: Tensor, labels: Tensor) -> Tensor:
        return norm_softmax(similarities, labels, temperature=self.temperature)

    def computation(self, labels: Tensor, part: Part = WHOLE) -> Compute:
        return softmax_in_chunks(labels, Softmax(1 / self.temperature), part)
