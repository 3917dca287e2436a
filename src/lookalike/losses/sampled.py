"""Sampled classes: a loss over the classes of the batch and a random part of all others.

A step then costs that part of the whole loss, and with `sparse_gradients` the other proxies get no gradient
at all, which the optimizers of `lookalike.optim.row_sparse` use. The classes of the batch are never left out.

Each absent class is drawn with probability `fraction`, independently, and has weight 1/fraction among the
other classes. So any sum over classes keeps its expected value: Proxy-Anchor's negative term and SoftTriple's
regularizer are unbiased for a given batch, values and gradients. In softmax losses the sum of exponentials is
unbiased, and its logarithm a little low (by about var/(2 mean^2) of the sampled sum). With `corrected=False`
the sample is treated as all classes, as Partial FC does: the loss is lower by about log(1/fraction), and
negatives have less weight.

Either way the hardest wrong classes of a sample occur in only `fraction` of the steps. Retrieval by class
proxies over millions of classes was reported to get worse; the whole loss in chunks, or proxies sharded over
processes, are exact.

Shapes: B batch, C classes, S sampled classes, Q their proxies, D dimension.
"""

from typing import Any, ClassVar

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from lookalike.errors import ArgumentError
from lookalike.losses.base import MetricLoss, ProxyLoss
from lookalike.losses.build import Base, build_base
from lookalike.losses.chunked import ChunkedProxyLoss
from lookalike.losses.kernels.chunks import Part
from lookalike.utils.validation import check_between

LEAST_DRAWN = 20  # expected absent classes in a sample; the chance of an empty sample is then e^-20


def chunked_base(
    base: Base, num_classes: int, embedding_dim: int, generator: Generator | None = None
) -> ChunkedProxyLoss:
    """The base loss of a wrapper over classes; see `build_base`.

    Raises:
        ArgumentError: it has no chunked form, or is a ready loss of other sizes.
    """
    loss = build_base(base, num_classes, embedding_dim, generator)
    if not isinstance(loss, ChunkedProxyLoss):
        raise ArgumentError(
            f"base {type(loss).__name__} cannot be computed over some of the classes; "
            "use a softmax loss, ProxyAnchor or SoftTriple"
        )
    return loss


def sample_classes(
    labels_B: Tensor, num_classes: int, fraction: float, generator: Generator
) -> tuple[Tensor, Tensor]:
    """The classes of the batch and each other one with probability `fraction`.

    Returns:
        classes (S,), rising, and whether each is in the batch (S,); on the device of `labels_B`.
    """
    drawn_C = (torch.rand(num_classes, generator=generator) < fraction).to(labels_B.device)
    present_C = torch.zeros_like(drawn_C).index_fill_(0, labels_B, True)
    classes_S = (drawn_C | present_C).nonzero()[:, 0]
    return classes_S, present_C[classes_S]


class Sampled(MetricLoss):
    """A base loss over the batch's classes and a random part of the others; over all classes in evaluation mode.

    Args:
        base: Proxy-Anchor, SoftTriple or a softmax loss: a name, {"name": ..., "settings": {...}}, or ready.
        fraction: of the absent classes in each step.
        corrected: whether an absent class that was drawn has weight 1/fraction; see above.
        sparse_gradients: whether the proxies' gradient is a sparse tensor of the rows in the sample, which needs
            an optimizer for it (`lookalike.optim.row_sparse`, torch's SparseAdam); torch cannot clip it.
        seed: decides, with the number of the step, which classes are drawn; the same in each process.
        generator: source of the proxies' random start.
    """

    paper = "An et al., Partial FC: Training 10 Million Identities on a Single Machine, ICCV workshops 2021"
    toy_arguments: ClassVar[dict[str, Any]] = {"fraction": 1.0}  # five classes are too few to leave any out

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        base: Base = "proxy_anchor",
        fraction: float = 0.1,
        corrected: bool = True,
        sparse_gradients: bool = False,
        seed: int = 0,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(num_classes, embedding_dim)
        check_between("fraction", fraction, 0, 1)
        if fraction < 1 and fraction * num_classes < LEAST_DRAWN:
            raise ArgumentError(
                f"a fraction of {fraction} of {num_classes} classes is {fraction * num_classes:.1f} of them; "
                f"raise it to at least {LEAST_DRAWN}/{num_classes}, or use the base loss itself"
            )
        self.base = chunked_base(base, num_classes, embedding_dim, generator)
        self.fraction = fraction
        self.corrected = corrected
        self.sparse_gradients = sparse_gradients
        self.seed = seed
        self.iteration = 0

    @property
    def proxy_loss(self) -> ProxyLoss:
        """The base loss, with the proxies of all classes."""
        return self.base

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        labels = self.checked(embeddings, labels)
        if not self.training:
            return self.base.forward_checked(embeddings, labels)
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.iteration)
        self.iteration += 1
        classes_S, present_S = sample_classes(labels, self.num_classes, self.fraction, generator)
        n = self.base.proxies_per_class
        rows_Q = (classes_S[:, None] * n + torch.arange(n, device=labels.device)).flatten()
        proxies_QD = F.embedding(rows_Q, self.base.proxies, sparse=self.sparse_gradients)
        part = Part()
        if self.corrected:
            weights_S = torch.where(present_S, 1.0, 1 / self.fraction).to(proxies_QD.dtype)
            part = Part(weights_C=weights_S, num_classes=self.num_classes)
        return self.base.chunked(embeddings, proxies_QD, torch.searchsorted(classes_S, labels), part)

    def get_extra_state(self) -> Tensor:
        """The number of steps, so that a resumed run draws the same classes."""
        return torch.tensor(self.iteration)

    def set_extra_state(self, state: Tensor) -> None:
        self.iteration = int(state)
