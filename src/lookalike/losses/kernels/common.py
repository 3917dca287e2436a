"""What all losses in chunks of classes share: which classes, the chunks, lengths, the own proxies of a batch.

Letters: B batch, C classes at hand, N proxies of a class, P = C*N, D embedding dimension, Q those in a chunk.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from lookalike.utils.distributed import Processes

CHUNK_ENTRIES = {"cpu": 2**19, "accelerator": 2**22}
"""Numbers in the longer side of a chunk's matrices: 2 MB of float32 stay in a core's share of the cache."""


@dataclass(frozen=True)
class Part:
    """Which classes the proxies at hand are, what each counts, and how they are cut into chunks.

    Attributes:
        weights_C: what each class counts among the others of a sample; 1 each when None.
        num_classes: all classes there are; those at hand when None.
        start: number of the first class at hand, when other processes hold the others.
        processes: who holds the other classes; None when all are at hand.
        chunk: classes in a chunk; chosen for the cache when None.
        keep: whether softmax losses keep a B x P matrix for their second pass; chosen by size when None.
    """

    weights_C: Tensor | None = None
    num_classes: int | None = None
    start: int = 0
    processes: Processes | None = None
    chunk: int | None = None
    keep: bool | None = None

    def sum_(self, x: Tensor) -> Tensor:
        """The sum with the processes that hold the other classes, in place."""
        return x if self.processes is None else self.processes.sum_(x)

    def maximum_(self, x: Tensor) -> Tensor:
        """The maximum with the processes that hold the other classes, in place."""
        return x if self.processes is None else self.processes.maximum_(x)


WHOLE = Part()


def chunk_entries(device: torch.device) -> int:
    """`CHUNK_ENTRIES` of the device."""
    return CHUNK_ENTRIES["cpu" if device.type == "cpu" else "accelerator"]


def chunk_classes(batch: int, dim: int, proxies_per_class: int, device: torch.device) -> int:
    """Classes in a chunk, when the caller does not say."""
    return max(16, chunk_entries(device) // (max(batch, dim) * proxies_per_class))


def chunks(num_classes: int, step: int) -> Iterator[tuple[int, int]]:
    """First class and end of each chunk."""
    for first in range(0, num_classes, step):
        yield first, min(first + step, num_classes)


def inverse_lengths(proxies_QD: Tensor) -> Tensor:
    """1 / length of each row (Q,); rows of zeros get 2, as `unit_rows` divides them by at least 1/2.

    Lengths are taken without the scaling of `unit_rows`: they have to lie in 1e-15 to 1e15.
    """
    lengths_Q: Tensor = torch.linalg.vector_norm(proxies_QD, dim=1)
    return F.threshold(lengths_Q, 0.0, 0.5).reciprocal_()


def fits_exponent(bound: float, terms: int, dtype: torch.dtype) -> bool:
    """Whether exp(+-bound), and `terms` of them added up, stay normal numbers, so that no shift is needed."""
    return bound + math.log(terms) + 10 < math.log(torch.finfo(dtype).max)


LOG2_E = 1 / math.log(2)
"""exp(x) = exp2(LOG2_E * x), which torch computes in a third of the time on a CPU; a scale takes the factor in."""


def exponentials_(cosines_QB: Tensor, scale: float, shift_B: Tensor | None = None) -> Tensor:
    """exp(scale * cosines - shift), in place; without a shift they must fit, see `fits_exponent`."""
    if shift_B is None:
        return cosines_QB.mul_(scale * LOG2_E).exp2_()
    return cosines_QB.mul_(scale).sub_(shift_B).exp_()


@dataclass(frozen=True)
class OwnProxies:
    """The proxies of each sample's own class: the B*N similarities that every loss treats apart.

    `here_B` tells which of these classes are at hand (None: all of them).
    """

    rows_BN: Tensor
    here_B: Tensor | None
    unit_BND: Tensor
    inverse_BN: Tensor
    sims_BN: Tensor

    @classmethod
    def of(
        cls, unit_BD: Tensor, proxies_PD: Tensor, labels_B: Tensor, *, proxies_per_class: int, part: Part
    ) -> "OwnProxies":
        """Cosines of samples and own proxies, from whichever process holds them."""
        labels_B = labels_B - part.start
        here_B = None
        if part.processes is not None:
            held = len(proxies_PD) // proxies_per_class
            here_B = (labels_B >= 0) & (labels_B < held)
            labels_B = labels_B.clamp(0, held - 1)
        rows_BN = labels_B[:, None] * proxies_per_class + torch.arange(
            proxies_per_class, device=unit_BD.device
        )
        own_BND = proxies_PD.index_select(0, rows_BN.flatten()).view(*rows_BN.shape, -1)
        inverse_BN = inverse_lengths(own_BND.flatten(0, 1)).view_as(rows_BN)
        own_BND = own_BND.mul_(inverse_BN[..., None])
        sims_BN = (own_BND * unit_BD[:, None]).sum(dim=2)
        if here_B is not None:
            sims_BN = part.sum_(sims_BN * here_B[:, None])
        return cls(rows_BN, here_B, own_BND, inverse_BN, sims_BN)

    def add_gradients(
        self, weights_BN: Tensor, unit_BD: Tensor, to_unit_BD: Tensor | None, to_proxies_PD: Tensor | None
    ) -> None:
        """Adds the gradients of sum(weights_BN * sims_BN) by unit embeddings and raw proxies, in place."""
        if self.here_B is not None:
            weights_BN = weights_BN * self.here_B[:, None]
        if to_unit_BD is not None:
            for n in range(self.unit_BND.shape[1]):
                to_unit_BD.addcmul_(weights_BN[:, n, None], self.unit_BND[:, n])
        if to_proxies_PD is not None:
            across_BND = torch.addcmul(unit_BD[:, None], self.unit_BND, self.sims_BN[..., None], value=-1)
            across_BND.mul_((weights_BN * self.inverse_BN)[..., None])
            to_proxies_PD.index_add_(0, self.rows_BN.flatten(), across_BND.flatten(0, 1))


class OwnEntries:
    """Finds, in a chunk's (classes, B) matrix, the entry of each sample's own class, without a sync.

    `held` is how many classes are at hand: a chunk of them all has every entry.
    """

    def __init__(self, labels_B: Tensor, part: Part, held: int) -> None:
        self._held = held if part.processes is None else None
        self._labels_B = labels_B - part.start if part.start else labels_B

    def fill_(self, matrix_QB: Tensor, first: int, value: float) -> None:
        """Sets the own entries of a chunk that starts at class `first` to `value`."""
        if len(matrix_QB) == self._held:
            matrix_QB.scatter_(0, self._labels_B[None], value)
            return
        at, inside_B = self._find(matrix_QB, first)
        matrix_QB[at] = matrix_QB[at].masked_fill_(inside_B, value)

    def put_(self, matrix_QB: Tensor, first: int, values_B: Tensor) -> None:
        """Sets the own entry of each sample to its value."""
        if len(matrix_QB) == self._held:
            matrix_QB.scatter_(0, self._labels_B[None], values_B[None])
            return
        at, inside_B = self._find(matrix_QB, first)
        matrix_QB[at] = torch.where(inside_B, values_B, matrix_QB[at])

    def of(self, matrix_CB: Tensor) -> Tensor:
        """The own entries of a matrix of all classes."""
        return matrix_CB.gather(0, self._labels_B[None])[0]

    @cached_property
    def _columns_B(self) -> Tensor:
        return torch.arange(len(self._labels_B), device=self._labels_B.device)

    def _find(self, matrix_QB: Tensor, first: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """Some entry of each column, and whether it is the own one."""
        last = len(matrix_QB) - 1
        rows_B = self._labels_B - first
        inside_B = (rows_B >= 0) & (rows_B <= last)
        return (rows_B.clamp_(0, last), self._columns_B), inside_B
