"""Base classes of the losses: checks of the batch, proxies, and cosine similarities.

A proxy is a learned vector that stands for a class. A proxy loss compares embeddings with proxies instead of
with one another, so it needs no mining of pairs. All of them are functions of the cosine similarities between
B embeddings and P proxies; a loss file holds that function and a module around it:

    forward = check the batch -> self.similarities -> self.loss_from_similarities
              or, for many classes, the same formula in chunks (`chunked.py`)

Shapes in all loss files: B batch, C classes, N proxies per class, P = C*N proxies in class-major order (class
c owns rows c*N to c*N+N-1), D embedding dimension; `sims_BP` are cosine similarities.
"""

import inspect
import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from lookalike.losses import proxy_init as inits
from lookalike.losses.batch_checks import as_labels, check_batch
from lookalike.losses.functional import full_precision, unit_rows
from lookalike.losses.search_range import SearchRange
from lookalike.utils.validation import check_at_least, check_choice

CHUNKED_FROM = 2**15
"""Similarities per batch from which the chunked form is the faster one."""


class MetricLoss(nn.Module, ABC):
    """A loss of embeddings (B, D) and labels (B,): what a training loop needs to know about any of them.

    Args:
        num_classes: C, at least 2.
        embedding_dim: D, at least 1.

    What the tables of the package say of a loss comes from these class attributes:

    Attributes:
        paper: authors, title, venue and year.
        search_space: where its arguments are searched; empty for a loss that nobody searches.
        toy_arguments: arguments that make sense for 5 classes in 4 dimensions, for tests and trials.
        needs_feature_maps: whether `forward` takes the backbone's feature maps as a third argument.
    """

    paper: ClassVar[str] = ""
    search_space: ClassVar[tuple[SearchRange, ...]] = ()
    toy_arguments: ClassVar[dict[str, Any]] = {}
    needs_feature_maps: ClassVar[bool] = False

    def __init__(self, num_classes: int, embedding_dim: int) -> None:
        """The class describes the arguments, `MetricLoss` those that all losses have."""
        super().__init__()
        check_at_least("num_classes", num_classes, 2)
        check_at_least("embedding_dim", embedding_dim, 1)
        self.num_classes = num_classes
        self.embedding_dim = embedding_dim
        self._reset: list[nn.Parameter] = []

    @property
    def proxy_loss(self) -> "ProxyLoss | None":
        """The loss that holds the proxies of the classes: itself, a wrapped one, or None without proxies."""
        return None

    @abstractmethod
    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The loss, a scalar; the class gives the formula.

        Args:
            embeddings: (B, D), floating point, D as `embedding_dim`; they need not be unit vectors.
            labels: (B,), each sample's class as an integer from 0 to `num_classes` - 1.

        Raises:
            ArgumentError: wrong shapes, dtypes or labels, or values that are not finite; names the first bad
                sample.
        """

    def checked(self, embeddings: Tensor, labels: Tensor | NDArray[Any]) -> Tensor:
        """The labels as int64 on the embeddings' device, after every check of the batch.

        Labels may have any integer dtype, also NumPy's of either byte order.

        Raises:
            ArgumentError: wrong shapes, dtypes or labels, or values that are not finite; names the first bad
                sample.
        """
        if isinstance(labels, np.ndarray):
            labels = as_labels(labels)
        check_batch(embeddings, labels, num_classes=self.num_classes, embedding_dim=self.embedding_dim)
        return labels.to(embeddings.device, torch.int64)

    def initialize_proxies_at_class_means(
        self, embeddings_MD: Tensor, labels_M: Tensor, generator: Generator | None = None
    ) -> None:
        """Puts the proxies, if there are any, at the class means; see `ProxyLoss`."""
        if self.proxy_loss is not None:
            self.proxy_loss.initialize_proxies_at_class_means(embeddings_MD, labels_M, generator)

    def pop_reset_parameters(self) -> list[nn.Parameter]:
        """Parameters that `forward` has set since the last call; their optimizer state has to be dropped."""
        reset, self._reset = self._reset, []
        return reset


class ProxyLoss(MetricLoss):
    """A loss with proxies.

    Args:
        num_classes: C, at least 2.
        embedding_dim: D.
        proxies_per_class: N.
        generator: source of the random start; torch's own when None.

    Attributes:
        proxy_init: the distribution that the proxies are drawn from, a name in `PROXY_INITS`.

    `proxies` is the parameter, (C*N, D), class-major, float32 until the module is cast.
    """

    proxy_init: ClassVar[str] = "randn"
    form: str = "auto"
    """How losses with two forms are computed, to the same values: "dense"; "chunked" (gradients found in the
    forward pass, little memory, no second derivative); or "auto", chunked for many similarities."""

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        proxies_per_class: int = 1,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(num_classes, embedding_dim)
        check_at_least("proxies_per_class", proxies_per_class, 1)
        self.proxies_per_class = proxies_per_class
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
        """Draws the proxies in the way that `proxy_init` names; does nothing on the meta device.

        Args:
            first: the class of the first proxy held here, where other processes hold the others.
        """
        if self.proxies.is_meta:
            return
        n, dim = self.proxies_per_class, self.embedding_dim
        total, draw = self.num_classes * n, inits.PROXY_INITS[self.proxy_init]
        blocks = inits.draw_rows(
            lambda rows: draw(rows, total, dim, generator), total, first * n, len(self.proxies)
        )
        for held, block in blocks:
            self.proxies[held] = block.to(self.proxies)

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
            first: the class of the first proxy held here, where other processes hold the others.
        """
        labels_M = self.checked(embeddings_MD, labels_M) - first
        n, dim = self.proxies_per_class, self.embedding_dim
        classes = len(self.proxies) // n
        labels_M = labels_M.masked_fill((labels_M < 0) | (labels_M >= classes), classes)  # held elsewhere
        dtype = torch.promote_types(embeddings_MD.dtype, torch.float32)
        sums_CD = embeddings_MD.new_zeros(classes + 1, dim, dtype=dtype)
        blocks = (torch.split(x, inits.ROWS_PER_DRAW) for x in (labels_M, embeddings_MD))
        for labels_R, embeddings_RD in zip(*blocks, strict=True):
            sums_CD.index_add_(0, labels_R, unit_rows(embeddings_RD))
        sums_CD = sums_CD[:classes]
        means_PD = unit_rows(sums_CD).repeat_interleave(n, dim=0)
        if n > 1:
            noise = inits.draw_rows(
                lambda rows: inits.normal(0.1 / math.sqrt(dim), rows, dim, generator),
                self.num_classes * n,
                first * n,
                len(means_PD),
            )
            for held, block in noise:
                means_PD[held] += block.to(means_PD)
            means_PD = unit_rows(means_PD)
        present_P = torch.bincount(labels_M, minlength=classes)[:classes].repeat_interleave(n) > 0
        self.proxies.copy_(torch.where(present_P[:, None], means_PD, self.proxies.to(means_PD)))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return self.forward_checked(embeddings, self.checked(embeddings, labels))

    def forward_checked(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The loss of a batch that has passed `checked`."""
        return self.loss_from_similarities(self.similarities(embeddings), labels)

    @abstractmethod
    def loss_from_similarities(self, similarities: Tensor, labels: Tensor) -> Tensor:
        """The loss of a batch's similarities (B, P) with all proxies."""

    def similarities(self, embeddings_BD: Tensor) -> Tensor:
        """Cosine similarities (B, P) of embeddings and proxies, in at least float32 and without autocast."""
        with full_precision(embeddings_BD):
            unit_BD, unit_PD = unit_rows(embeddings_BD), unit_rows(self.proxies)
            dtype = torch.promote_types(unit_BD.dtype, unit_PD.dtype)
            return unit_BD.to(dtype) @ unit_PD.to(dtype).T

    def in_chunks(self, embeddings_BD: Tensor) -> bool:
        """Whether `forward` takes the chunked form for this batch; see `form`."""
        check_choice("form", self.form, ("auto", "dense", "chunked"))
        many = len(embeddings_BD) * len(self.proxies) >= CHUNKED_FROM
        return self.form == "chunked" or (self.form == "auto" and many)

    def settings(self) -> dict[str, Any]:
        """The keyword arguments that build this loss again."""
        parameters = inspect.signature(type(self)).parameters.values()
        names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "generator"]
        return {name: getattr(self, name) for name in names}

    def extra_repr(self) -> str:
        """Classes, dimensions and settings, as `repr` shows them."""
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{self.num_classes}, {self.embedding_dim}, {settings}"
