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
from lookalike.losses.build import Base
from lookalike.losses.class_wrapper import ClassWrapper
from lookalike.losses.kernels.chunks import Part
from lookalike.utils.validation import check_between

LEAST_DRAWN = 20  # expected absent classes in a sample; the chance of an empty sample is then e^-20


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


class Sampled(ClassWrapper):
    """A base loss over the batch's classes and a random part of the others; over all classes in evaluation mode.

    Args:
        base, seed, generator: see `ClassWrapper`.
        fraction: of the absent classes in each step.
        corrected: whether an absent class that was drawn has weight 1/fraction; see above.
        sparse_gradients: whether the proxies' gradient is a sparse tensor of the rows in the sample, which needs
            an optimizer for it (`lookalike.optim.row_sparse`, torch's SparseAdam); torch cannot clip it.
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
        super().__init__(num_classes, embedding_dim, base=base, seed=seed, generator=generator)
        check_between("fraction", fraction, 0, 1)
        if fraction < 1 and fraction * num_classes < LEAST_DRAWN:
            raise ArgumentError(
                f"a fraction of {fraction} of {num_classes} classes is {fraction * num_classes:.1f} of them; "
                f"raise it to at least {LEAST_DRAWN}/{num_classes}, or use the base loss itself"
            )
        self.fraction = fraction
        self.corrected = corrected
        self.sparse_gradients = sparse_gradients

    def training_loss(self, embeddings: Tensor, labels: Tensor, iteration: int) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + iteration)
        classes_S, present_S = sample_classes(labels, self.num_classes, self.fraction, generator)
        n = self.base.proxies_per_class
        rows_Q = (classes_S[:, None] * n + torch.arange(n, device=labels.device)).flatten()
        proxies_QD = F.embedding(rows_Q, self.base.proxies, sparse=self.sparse_gradients)
        part = Part()
        if self.corrected:
            weights_S = torch.where(present_S, 1.0, 1 / self.fraction).to(proxies_QD.dtype)
            part = Part(weights_C=weights_S, num_classes=self.num_classes)
        return self.base.chunked(embeddings, proxies_QD, torch.searchsorted(classes_S, labels), part)
