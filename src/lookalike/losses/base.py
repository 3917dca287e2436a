"""What every loss has in common: proxies, unit similarities, and one check at the door.

A proxy is a learned vector that stands for a class; a proxy loss compares embeddings with proxies instead of
with one another, so it never has to look for good pairs. All of them are functions of the cosines between B
embeddings and P proxies, so a loss file is a pure function of these cosines and a thin module around it:

    forward = check once -> self.similarities -> function, or for many classes the same in chunks

Letters in all loss files: B batch, C classes, N proxies of a class, P = C*N proxies in class-major order
(class c owns rows c*N to c*N+N-1), D embedding dimension.
"""

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn

from lookalike.utils.validation import check_at_least, check_batch, check_choice, look_up


def unit_rows(x_ND: Tensor) -> Tensor:
    """The rows of `x_ND` at length 1, in at least float32.

    Dividing by the largest entry first keeps lengths from 1e-38 to 1e38 exact. A row of zeros stays zero,
    with a finite gradient.
    """
    x_ND = x_ND.to(torch.promote_types(x_ND.dtype, torch.float32))
    largest_N1 = x_ND.detach().abs().amax(dim=-1, keepdim=True)
    x_ND = x_ND / largest_N1.masked_fill(largest_N1 == 0, 1)
    norm_N1: Tensor = torch.linalg.vector_norm(x_ND, dim=-1, keepdim=True)  # 0, or at least 1
    return x_ND / norm_N1.clamp_min(0.5)


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """A context in which nothing is cast down: losses are computed in float32 or better."""
    device = x.device.type
    if not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
        return nullcontext()  # a context that changes nothing takes ten times as long to enter
    return torch.autocast(device, enabled=False)


def _normal(std: float, rows: int, dim: int, generator: Generator | None) -> Tensor:
    device = generator.device if generator else "cpu"
    return torch.randn(rows, dim, generator=generator, device=device) * std


def _uniform(bound: float, rows: int, dim: int, generator: Generator | None) -> Tensor:
    device = generator.device if generator else "cpu"
    return (torch.rand(rows, dim, generator=generator, device=device) * 2 - 1) * bound


# Only the direction of a proxy enters a loss, but its length sets how far one optimizer step turns it.
# Functions of the rows to draw now, all rows, and D: large tables are drawn in blocks.
PROXY_INITS: dict[str, Callable[[int, int, int, Generator | None], Tensor]] = {
    "randn": lambda draw, rows, dim, g: _normal(1, draw, dim, g),
    "randn/8": lambda draw, rows, dim, g: _normal(1 / 8, draw, dim, g),  # ProxyNCA and ProxyNCA++ code
    # fan-out, Proxy-Anchor code
    "kaiming": lambda draw, rows, dim, g: _normal(math.sqrt(2 / rows), draw, dim, g),
    "xavier": lambda draw, rows, dim, g: _normal(math.sqrt(2 / (rows + dim)), draw, dim, g),
    "uniform": lambda draw, rows, dim, g: _uniform(1 / math.sqrt(dim), draw, dim, g),  # NormSoftmax code
    # SoftTriple and ProxyGML code
    "kaiming_uniform": lambda draw, rows, dim, g: _uniform(1 / math.sqrt(rows), draw, dim, g),
    # until initialize_proxies_at_class_means
    "class_mean": lambda draw, rows, dim, g: _normal(1, draw, dim, g),
}
ROWS_AT_ONCE = 2**16

CHUNKED_FROM = 2**13
"""Similarities in a batch from which chunked forms are faster: about 90 samples and 90 proxies."""


class MetricLoss(nn.Module, ABC):
    """A loss of embeddings (B, D) and labels (B,): what a training loop needs to know about any of them."""

    needs_feature_maps: ClassVar[bool] = False
    """Whether `forward` takes the backbone's feature maps as a third argument."""

    def __init__(self, num_classes: int, embedding_dim: int) -> None:
        super().__init__()
        check_at_least("num_classes", num_classes, 2)
        check_at_least("embedding_dim", embedding_dim, 1)
        self.num_classes = num_classes
        self.embedding_dim = embedding_dim
        self._replaced: list[nn.Parameter] = []

    @property
    @abstractmethod
    def proxy_loss(self) -> "ProxyLoss | None":
        """The loss that holds the proxies of the classes: itself, a wrapped one, or None without proxies."""

    def checked(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The labels as int64 on the embeddings' device, after every check of the batch.

        Raises:
            ArgumentError: wrong shapes, dtypes or labels, or values not finite; names the first bad sample.
        """
        if isinstance(labels, Tensor) and labels.dtype in (torch.uint16, torch.uint32, torch.uint64):
            labels = labels.long()  # torch cannot compare these
        check_batch(embeddings, labels, num_classes=self.num_classes, embedding_dim=self.embedding_dim)
        return labels.to(embeddings.device, torch.int64)

    def initialize_proxies_at_class_means(
        self, embeddings_MD: Tensor, labels_M: Tensor, generator: Generator | None = None
    ) -> None:
        """Puts the proxies, if there are any, at the class means; see `ProxyLoss`."""
        if self.proxy_loss is not None:
            self.proxy_loss.initialize_proxies_at_class_means(embeddings_MD, labels_M, generator)

    def pop_reset_parameters(self) -> list[nn.Parameter]:
        """Parameters that `forward` set anew since the last call; their optimizer state is to be dropped."""
        replaced, self._replaced = self._replaced, []
        return replaced


class ProxyLoss(MetricLoss):
    """A loss with proxies.

    Args:
        num_classes: C, at least 2.
        embedding_dim: D.
        proxies_per_class: N.
        proxy_init: a name in `PROXY_INITS`.
        generator: source of the random start; torch's own when None.

    `proxies` is the parameter, (C*N, D), class-major, float32 until the module is cast.
    """

    form: str = "auto"
    """How losses with both forms are computed, to the same values: "dense"; "chunked" (gradients found in the
    forward pass, little memory, no second derivative); or "auto", chunked for many cosines."""

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        proxies_per_class: int = 1,
        proxy_init: str = "randn",
        generator: Generator | None = None,
    ) -> None:
        super().__init__(num_classes, embedding_dim)
        check_at_least("proxies_per_class", proxies_per_class, 1)
        look_up(PROXY_INITS, proxy_init, "proxy initialization")
        self.proxies_per_class = proxies_per_class
        self.proxy_init = proxy_init
        self.proxies = nn.Parameter(
            torch.empty(num_classes * proxies_per_class, embedding_dim, dtype=torch.float32)
        )
        self.reset_parameters(generator)

    @property
    def proxy_loss(self) -> "ProxyLoss":
        """This loss."""
        return self

    @torch.no_grad()
    def reset_parameters(self, generator: Generator | None = None, *, first: int = 0) -> None:
        """Draws the proxies anew, in the way that `proxy_init` names; on the meta device there is nothing to draw.

        Args:
            first: the class of the first proxy that is held here, where other processes hold the others. All
                are drawn, block by block, so that the start is the same however the classes are cut.
        """
        if self.proxies.is_meta:
            return
        all_rows = self.num_classes * self.proxies_per_class
        draw = PROXY_INITS[self.proxy_init]
        for held, block in self._held(
            first, lambda rows: draw(rows, all_rows, self.embedding_dim, generator)
        ):
            self.proxies[held] = block.to(self.proxies)

    def _held(self, first: int, draw: Callable[[int], Tensor]) -> Iterator[tuple[slice, Tensor]]:
        """Rows of `proxies` with theirs of what `draw` gives for all proxies of all processes, in blocks."""
        all_rows, begin = self.num_classes * self.proxies_per_class, first * self.proxies_per_class
        for at in range(0, all_rows, ROWS_AT_ONCE):
            block = draw(min(ROWS_AT_ONCE, all_rows - at))
            low, high = max(at, begin), min(at + len(block), begin + len(self.proxies))
            if low < high:
                yield slice(low - begin, high - begin), block[low - at : high - at]

    @torch.no_grad()
    def initialize_proxies_at_class_means(
        self,
        embeddings_MD: Tensor,
        labels_M: Tensor,
        generator: Generator | None = None,
        *,
        first: int = 0,
    ) -> None:
        """Puts the proxies at the unit mean directions of the classes of M embeddings.

        Several proxies of a class start around its mean, moved by noise of length about 0.1. A class without
        embeddings keeps its proxies.

        Args:
            first: the class of the first proxy that is held here, where other processes hold the others.
        """
        labels_M = self.checked(embeddings_MD, labels_M) - first
        n, dim = self.proxies_per_class, self.embedding_dim
        classes = len(self.proxies) // n
        labels_M = labels_M.masked_fill((labels_M < 0) | (labels_M >= classes), classes)  # held elsewhere
        dtype = torch.promote_types(embeddings_MD.dtype, torch.float32)
        sums_CD = embeddings_MD.new_zeros(classes + 1, dim, dtype=dtype)
        blocks = (torch.split(x, ROWS_AT_ONCE) for x in (labels_M, embeddings_MD))
        for labels_R, embeddings_RD in zip(*blocks, strict=True):
            sums_CD.index_add_(0, labels_R, unit_rows(embeddings_RD))
        sums_CD = sums_CD[:classes]
        means_PD = unit_rows(sums_CD).repeat_interleave(n, dim=0)
        if n > 1:
            for held, block in self._held(
                first, lambda rows: _normal(0.1 / math.sqrt(dim), rows, dim, generator)
            ):
                means_PD[held] += block.to(means_PD)
            means_PD = unit_rows(means_PD)
        present_P = torch.bincount(labels_M, minlength=classes)[:classes].repeat_interleave(n) > 0
        self.proxies.copy_(torch.where(present_P[:, None], means_PD, self.proxies.to(means_PD)))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return self.forward_checked(embeddings, self.checked(embeddings, labels))

    def forward_checked(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The loss of a batch that has passed `checked`."""
        return self.dense(self.similarities(embeddings), labels)

    @abstractmethod
    def dense(self, similarities: Tensor, labels: Tensor) -> Tensor:
        """The loss of a batch's cosines (B, P) with all proxies."""

    def similarities(self, embeddings_BD: Tensor) -> Tensor:
        """Cosines (B, P) of embeddings and proxies, in at least float32, whatever the autocast."""
        with full_precision(embeddings_BD):
            unit_BD, unit_PD = unit_rows(embeddings_BD), unit_rows(self.proxies)
            dtype = torch.promote_types(unit_BD.dtype, unit_PD.dtype)
            return unit_BD.to(dtype) @ unit_PD.to(dtype).T

    def in_chunks(self, embeddings_BD: Tensor) -> bool:
        """Whether `forward` takes the chunked form for this batch; see `form`."""
        check_choice("form", self.form, ("auto", "dense", "chunked"))
        many = len(embeddings_BD) * len(self.proxies) >= CHUNKED_FROM
        return self.form == "chunked" or (self.form == "auto" and many)

    def class_scores(self, embeddings_BD: Tensor) -> Tensor:
        """Cosines (B, C) of embeddings and the nearest proxy of each class, for whoever wants to classify."""
        return self.similarities(embeddings_BD).view(len(embeddings_BD), self.num_classes, -1).amax(dim=2)

    def settings(self) -> dict[str, object]:
        """The keyword arguments that build this loss again."""
        parameters = inspect.signature(type(self)).parameters.values()
        names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "generator"]
        return {name: getattr(self, name) for name in names}

    def extra_repr(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{self.num_classes}, {self.embedding_dim}, {settings}"
