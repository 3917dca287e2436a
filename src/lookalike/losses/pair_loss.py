"""Losses of pairs of embeddings: no proxies, and a count of the batches that had no pair to learn from."""

from torch import Tensor

from lookalike.losses.base import MetricLoss
from lookalike.losses.kernels.chunks import count_distinct
from lookalike.losses.pair_counts import PairCounts


class PairLoss(MetricLoss):
    """A loss that compares the embeddings of a batch with one another; subclasses call `count` in `forward`."""

    def __init__(self, num_classes: int, embedding_dim: int) -> None:
        super().__init__(num_classes, embedding_dim)
        self._counts = PairCounts()

    @property
    def proxy_loss(self) -> None:
        """None: there are no proxies."""

    def count(self, labels_B: Tensor, mined: tuple[Tensor, ...] | None = None) -> None:
        """Counts a batch of training.

        Args:
            mined: what a miner selected: triplets (a, p, n), or pairs (a, p) and (a, n) in one tuple.
        """
        if self.training:
            no_positives = int(count_distinct(labels_B)) == len(labels_B)
            found = True if mined is None else any(len(indices) > 0 for indices in mined)
            self._counts += PairCounts(1, int(no_positives), int(no_positives or not found))

    def pop_pair_counts(self) -> PairCounts:
        """In how many batches since the last call, in training mode, there was no pair to learn from."""
        counts, self._counts = self._counts, PairCounts()
        return counts
