"""Proxy Synthesis: each step invents classes between those of the batch, with embeddings and proxies to match.

Two samples of different classes and their two proxies are mixed with one share. The mix is a class of its own for
this step: real samples meet its proxy as a negative, and its embedding meets all real proxies as negatives.

Shapes: S synthetic classes, at most B.
"""

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Generator, Tensor

from lookalike.errors import ArgumentError
from lookalike.losses.build import Base
from lookalike.losses.class_wrapper import ClassWrapper
from lookalike.losses.functional import full_precision, unit_rows
from lookalike.losses.kernels.chunks import Part
from lookalike.losses.soft_triple import SoftTriple
from lookalike.utils.validation import check_between, check_positive

PASSES = 50  # of swaps, as in the authors' code


def apart(labels: list[int]) -> list[int]:
    """An order of the batch in which neighbors are of different classes, the last and the first too.

    Where two neighbors are of one class, the second is swapped with the one after it, up to 50 passes; a class
    with more than half of the batch leaves equal neighbors.
    """
    order, n = list(range(len(labels))), len(labels)
    for _ in range(PASSES):
        swapped = False
        for now in range(n):
            following, after = (now + 1) % n, (now + 2) % n
            if labels[order[now]] == labels[order[following]]:
                order[following], order[after] = order[after], order[following]
                swapped = True
        if not swapped:
            break
    return order


def mixed(unit_BD: Tensor, partner_S: Tensor, share: float) -> Tensor:
    """Unit vectors (S, D) between row i and its partner, for the first S rows."""
    return unit_rows(share * unit_BD[: len(partner_S)] + (1 - share) * unit_BD[partner_S])


class ProxySynthesis(ClassWrapper):
    """A base loss over the classes and S = min(B, mu*B) synthetic ones; the base alone in evaluation mode.

    x~_i = unit(t x_i + (1-t) x_j),  p~_i = unit(t p_{y_i} + (1-t) p_{y_j}),  t ~ Beta(beta, beta) once per step

    j is the row before i, after the batch was put in an order in which neighbors are of different classes. Where a
    class has more than half of the batch, equal neighbors are left; as in the authors' code, they make a class too.

    Args:
        base, seed, generator: see `ClassWrapper`; not SoftTriple. The authors' code has NormSoftmax and Proxy-NCA
            in its softmax form; over other bases this is a plain reading.
        mu: synthetic classes per sample.
        beta: alpha in the authors' code.
    """

    paper = (
        "Gu, Ko and Kim, Proxy Synthesis: Learning with Synthetic Classes for Deep Metric Learning, AAAI 2021"
    )
    toy_arguments: ClassVar[dict[str, Any]] = {"base": "norm_softmax"}

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        base: Base = "norm_softmax",
        mu: float = 1.0,
        beta: float = 0.4,
        seed: int = 0,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(num_classes, embedding_dim, base=base, seed=seed, generator=generator)
        check_between("mu", mu, 0, 1)
        check_positive("beta", beta)
        if isinstance(self.base, SoftTriple):
            raise ArgumentError(
                "base SoftTriple has several centers per class; use a loss with one proxy per class"
            )
        self.mu = mu
        self.beta = beta

    def training_loss(self, embeddings: Tensor, labels: Tensor, iteration: int) -> Tensor:
        share = float(np.random.default_rng((self.seed, iteration)).beta(self.beta, self.beta))
        order_B = torch.tensor(apart(labels.tolist()), device=labels.device)
        embeddings, labels = embeddings[order_B], labels[order_B]
        rows_S = torch.arange(int(len(labels) * self.mu), device=labels.device)
        partner_S = (rows_S - 1) % len(labels)
        return self.with_synthetic(embeddings, labels, partner_S, share)

    def with_synthetic(self, embeddings: Tensor, labels: Tensor, partner_S: Tensor, share: float) -> Tensor:
        """The loss with the first S rows mixed with their partners."""
        with full_precision(embeddings):
            unit_BD, unit_CD = unit_rows(embeddings), unit_rows(self.base.proxies)
            own_BD = unit_CD[labels]
            embeddings_SD, proxies_SD = mixed(unit_BD, partner_S, share), mixed(own_BD, partner_S, share)
            classes = self.num_classes + len(proxies_SD)
            synthetic_S = torch.arange(self.num_classes, classes, device=labels.device)
            return self.base.chunked(
                torch.cat([unit_BD, embeddings_SD]),
                torch.cat([unit_CD, proxies_SD]),
                torch.cat([labels, synthetic_S]),
                Part(),
            )
