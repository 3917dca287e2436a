"""The loss of docs/how_to/add_a_loss.md: mean weighted distance to the proxy of the sample's own class."""

from torch import Generator, Tensor

from lookalike.losses.base import ProxyLoss
from lookalike.losses.search_range import SearchRange
from lookalike.utils.validation import check_positive


class PullToProxy(ProxyLoss):
    """mean_i weight * (1 - s_iy), s a cosine similarity.

    Args:
        weight: lambda in the paper.
        generator: see `ProxyLoss`.
    """

    paper = "Author, Title, Venue year"
    search_space = (SearchRange("weight", 0.1, 10, log=True, source="ours"),)

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        weight: float = 1.0,
        generator: Generator | None = None,
    ) -> None:
        check_positive("weight", weight)
        super().__init__(num_classes, embedding_dim, generator=generator)
        self.weight = weight

    def loss_from_similarities(self, similarities: Tensor, labels: Tensor) -> Tensor:
        return self.weight * (1 - similarities.gather(1, labels[:, None])).mean()
