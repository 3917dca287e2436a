"""Chunks of classes that a loss is computed in, and the part of the classes that one process holds.

Shapes: B batch, C classes that this process holds, K classes of a chunk, T samples whose class is in it, N proxies
per class, D dimension.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from lookalike.utils.distributed import Processes

CHUNK_ENTRIES = {"cpu": 2**20, "accelerator": 2**22}
"""Numbers in the larger matrix of a chunk: 4 MB of float32 stay in a core's share of the cache."""


@dataclass(frozen=True)
class Chunk:
    """Consecutive classes, and which samples have their class among them.

    Attributes:
        classes: their numbers among the classes that are held.
        samples_T: the samples whose class is in this chunk.
        columns_T: the column of each of their classes.
        weights_K: weight of each class as another class of a sample; None for 1 each.
        num_classes: all classes of the loss, C when one process holds them all.
        present: number of distinct classes in the batch.
    """

    classes: slice
    samples_T: Tensor
    columns_T: Tensor
    weights_K: Tensor | None
    num_classes: int
    present: Tensor

    @classmethod
    def whole(cls, labels_B: Tensor, num_classes: int) -> "Chunk":
        """All classes as one chunk."""
        samples_B = torch.arange(len(labels_B), device=labels_B.device)
        return cls(slice(0, num_classes), samples_B, labels_B, None, num_classes, count_distinct(labels_B))

    @property
    def size(self) -> int:
        """K."""
        return int(self.classes.stop - self.classes.start)

    def target(self, x_BK: Tensor) -> Tensor:
        """The entries (T,) of own classes."""
        return x_BK[self.samples_T, self.columns_T]

    def with_target(self, x_BK: Tensor, values: Tensor | float) -> Tensor:
        """A copy of `x_BK` in which the entries of own classes are `values`, (T,) or one number."""
        values = torch.as_tensor(values, dtype=x_BK.dtype, device=x_BK.device)
        return x_BK.index_put((self.samples_T, self.columns_T), values)

    def add_to_target_(self, x_BK: Tensor, values: Tensor | float) -> Tensor:
        """Adds `values`, (T,) or one number, to the entries of own classes, in place."""
        x_BK[self.samples_T, self.columns_T] += values
        return x_BK


@dataclass(frozen=True)
class Part:
    """The classes whose proxies a process holds, their weights, and how they are cut into chunks.

    Attributes:
        weights_C: weight of each class as another class of a sample; classes of the batch have weight 1.
            None for 1 each.
        num_classes: all classes of the loss; those held when None.
        start: number of the first class that is held, when other processes hold the others.
        processes: the processes that hold the other classes; None when all are held here.
        chunk: classes per chunk; chosen for the cache when None.
        keep: whether similarities may be kept between two passes.
    """

    weights_C: Tensor | None = None
    num_classes: int | None = None
    start: int = 0
    processes: Processes | None = None
    chunk: int | None = None
    keep: bool = True

    def chunks(self, labels_B: Tensor, held: int, entries_per_class: int) -> Iterator[Chunk]:
        """The chunks of `held` classes, each of which has `entries_per_class` numbers in its larger matrix."""
        limit = CHUNK_ENTRIES["cpu" if labels_B.device.type == "cpu" else "accelerator"]
        step = self.chunk or max(16, limit // entries_per_class)
        present, num_classes = count_distinct(labels_B), self.num_classes or held
        for first in range(0, held, step):
            classes = slice(first, min(first + step, held))
            columns_B = labels_B - (self.start + first)
            samples_T = ((columns_B >= 0) & (columns_B < classes.stop - first)).nonzero()[:, 0]
            weights_K = None if self.weights_C is None else self.weights_C[classes]
            yield Chunk(classes, samples_T, columns_B[samples_T], weights_K, num_classes, present)

    def sum_(self, x: Tensor) -> Tensor:
        """The sum over the processes that hold the classes, in place."""
        return x if self.processes is None else self.processes.sum_(x)

    def logsumexp(self, x: Tensor) -> Tensor:
        """log sum exp over the processes that hold the classes."""
        if self.processes is None:
            return x
        largest = self.processes.maximum_(x.clone())
        shift = largest.masked_fill(largest.isinf(), 0)
        return self.processes.sum_((x - shift).exp_()).log_().add_(shift)


WHOLE = Part()


def count_distinct(labels_B: Tensor) -> Tensor:
    """The number of distinct labels, without waiting for an accelerator."""
    ordered_B = labels_B.sort().values
    return (ordered_B[1:] != ordered_B[:-1]).sum() + 1


def inverse_lengths(proxies_PD: Tensor) -> Tensor:
    """1 / length of each row (P,); 2 for rows of zeros, as in `unit_rows`.

    Lengths are taken without the scaling of `unit_rows`: they have to lie in 1e-15 to 1e15.
    """
    lengths_P: Tensor = torch.linalg.vector_norm(proxies_PD, dim=1)
    return F.threshold(lengths_P, 0.0, 0.5).reciprocal_()
