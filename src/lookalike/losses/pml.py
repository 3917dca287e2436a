"""Losses that compare embeddings with one another, through pytorch-metric-learning: the proxies' rivals.

They have no proxies and take the same two arguments as all others. The settings are those of the papers, or
of the code that the proxy papers measured themselves against. `FromPML` lets any other loss of that package
into our training; `AsPML` lets ours into that package's loops and trainers. The package loads scipy (65 MB in
all), so it is imported when the first of these losses is built.

Sources: Wang et al., "Multi-Similarity Loss", CVPR 2019; Wu et al., "Sampling Matters in Deep Embedding
Learning" (margin), ICCV 2017; Schroff et al., "FaceNet" (semi-hard triplets), CVPR 2015; Hadsell et al.,
"Dimensionality Reduction by Learning an Invariant Mapping" (contrastive), CVPR 2006; Sohn, "Improved Deep
Metric Learning with Multi-class N-pair Loss Objective", NIPS 2016; Oh Song et al., "Deep Metric Learning via
Lifted Structured Feature Embedding", CVPR 2016; Wang et al., "Ranked List Loss for Deep Metric Learning",
CVPR 2019.
"""

import importlib
import warnings
from abc import ABC
from typing import Any

import torch
from torch import Generator, Tensor, nn

from lookalike.errors import ArgumentError
from lookalike.losses.base import MetricLoss, full_precision, unit_rows
from lookalike.utils.validation import check_at_least, check_choice, check_positive


def _theirs(module: str) -> Any:
    """`pytorch_metric_learning.<module>`, imported now."""
    return importlib.import_module(f"pytorch_metric_learning.{module}")


class PairLoss(MetricLoss, ABC):
    """A loss of pytorch-metric-learning on what its miner finds. Subclasses only choose the two.

    They take a `generator` like every loss in the table; nothing of theirs starts at random.

    Args:
        loss: called with embeddings, labels and the miner's indices.
        miner: finds the pairs or triplets; None leaves it to the loss.
        normalized: hand over unit vectors, or the embeddings as they are; in float32 or better either way.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        loss: nn.Module,
        miner: nn.Module | None = None,
        normalized: bool = True,
    ) -> None:
        super().__init__(num_classes, embedding_dim)
        self.loss = loss
        self.miner = miner
        self.normalized = normalized

    @property
    def proxy_loss(self) -> None:
        """None: there are no proxies of ours."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        labels = self.checked(embeddings, labels)
        with full_precision(embeddings):
            if self.normalized:
                embeddings = unit_rows(embeddings)
            else:
                embeddings = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))
            mined = self.miner(embeddings, labels) if self.miner is not None else None
            value: Tensor = self.loss(embeddings, labels, mined)
            return value


class MultiSimilarity(PairLoss):
    """mean_i [log(1 + sum_p exp(-alpha*(s_ip - base)))/alpha + log(1 + sum_n exp(beta*(s_in - base)))/beta].

    The sums run over the miner's pairs: negatives nearer than the farthest positive less epsilon, and
    positives farther than the nearest negative plus epsilon. beta is 50 in the paper and 40 in the authors'
    code. Their code drops positives with a cosine above 1 - 1e-5, and fails when a class has one sample in
    the batch.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        alpha: float = 2.0,
        beta: float = 50.0,
        base: float = 0.5,
        epsilon: float = 0.1,
        generator: Generator | None = None,
    ) -> None:
        check_positive("alpha", alpha)
        check_positive("beta", beta)
        super().__init__(
            num_classes,
            embedding_dim,
            loss=_theirs("losses").MultiSimilarityLoss(alpha=alpha, beta=beta, base=base),
            miner=_theirs("miners").MultiSimilarityMiner(epsilon=epsilon),
        )


class Margin(PairLoss):
    """Sum over triplets of [d_ap - beta + margin]+ and [beta - d_an + margin]+, over the count above 0.

    Args:
        margin: alpha in the paper.
        beta: start of the boundary, a trainable parameter for each class of the anchor (`loss.beta`).
        nu: weight of the mean beta.
        sampling: "distance_weighted", one negative for each anchor and positive, drawn evenly over distances
            (0.5 to 1.4) with torch's own generator of random numbers, as dropout does; or "all" triplets.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        margin: float = 0.2,
        beta: float = 1.2,
        nu: float = 0.0,
        sampling: str = "distance_weighted",
        generator: Generator | None = None,
    ) -> None:
        check_choice("sampling", sampling, ("distance_weighted", "all"))
        super().__init__(
            num_classes,
            embedding_dim,
            loss=_theirs("losses").MarginLoss(
                margin=margin, nu=nu, beta=beta, learn_beta=True, num_classes=num_classes
            ),
            miner=_theirs("miners").DistanceWeightedMiner() if sampling == "distance_weighted" else None,
        )


class TripletSemihard(PairLoss):
    """Mean over losses above 0 of [d_ap - d_an + margin]+, over all triplets with 0 < d_an - d_ap <= margin.

    The form that the Proxy-Anchor authors ran; other code draws one such negative for each pair.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        margin: float = 0.1,
        generator: Generator | None = None,
    ) -> None:
        check_positive("margin", margin)
        super().__init__(
            num_classes,
            embedding_dim,
            loss=_theirs("losses").TripletMarginLoss(margin=margin),
            miner=_theirs("miners").TripletMarginMiner(margin=margin, type_of_triplets="semihard"),
        )


class Triplet(PairLoss):
    """Mean over losses above 0 of [d_ap - d_an + margin]+, over all triplets of the batch."""

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        margin: float = 0.2,
        generator: Generator | None = None,
    ) -> None:
        check_positive("margin", margin)
        super().__init__(num_classes, embedding_dim, loss=_theirs("losses").TripletMarginLoss(margin=margin))


class Contrastive(PairLoss):
    """Mean over terms above 0 of [d_p - positive_margin]+, plus the same of [negative_margin - d_n]+."""

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        positive_margin: float = 0.0,
        negative_margin: float = 0.5,
        generator: Generator | None = None,
    ) -> None:
        loss = _theirs("losses").ContrastiveLoss(pos_margin=positive_margin, neg_margin=negative_margin)
        super().__init__(num_classes, embedding_dim, loss=loss)


class LengthPenalty(nn.Module):
    """A loss plus `weight` times the mean squared length of the embeddings."""

    def __init__(self, loss: nn.Module, weight: float) -> None:
        super().__init__()
        self.loss = loss
        self.weight = weight

    def forward(self, embeddings_BD: Tensor, labels_B: Tensor, mined: object) -> Tensor:
        value: Tensor = self.loss(embeddings_BD, labels_B, mined)
        return value + self.weight * embeddings_BD.square().sum(dim=1).mean()


class NPairs(PairLoss):
    """Cross-entropy of dot products of one anchor and positive a class, plus l2_weight * mean squared length.

    The embeddings are not normalized. Of each class with two samples in the batch the first two are the pair.
    The penalty is 0.25 * 0.02 in one known implementation.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        l2_weight: float = 0.005,
        generator: Generator | None = None,
    ) -> None:
        check_at_least("l2_weight", l2_weight, 0)
        loss = _theirs("losses").NPairsLoss(
            distance=_theirs("distances").DotProductSimilarity(normalize_embeddings=False)
        )
        super().__init__(num_classes, embedding_dim, loss=LengthPenalty(loss, l2_weight), normalized=False)


class LiftedStructure(PairLoss):
    """Mean over positive pairs of [log sum_n exp(negative_margin - d_n) + d_p - positive_margin]+^2 / 2.

    The sum runs over the negatives of both ends of the pair.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        negative_margin: float = 1.0,
        positive_margin: float = 0.0,
        generator: Generator | None = None,
    ) -> None:
        loss = _theirs("losses").LiftedStructureLoss(neg_margin=negative_margin, pos_margin=positive_margin)
        super().__init__(num_classes, embedding_dim, loss=loss)


class RankedList(PairLoss):
    """Positives beyond alpha - margin and negatives within alpha, each list averaged by softmax-like weights.

    Args:
        margin: m in the paper, between the two boundaries.
        alpha: boundary of the negatives.
        negative_temperature: T_n, weight exp(T_n*(alpha - d)) of a negative.
        positive_temperature: T_p, weight exp(T_p*(d - alpha + margin)) of a positive.
        imbalance: lambda, weight of the negatives' list; the positives' gets 1 - lambda.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        margin: float = 0.4,
        alpha: float = 1.2,
        negative_temperature: float = 10.0,
        positive_temperature: float = 0.0,
        imbalance: float = 0.5,
        generator: Generator | None = None,
    ) -> None:
        with (
            warnings.catch_warnings()
        ):  # of temperatures above 5; the paper's is 10, and exp(10 * 1.2) is safe
            warnings.simplefilter("ignore")
            loss = _theirs("losses").RankedListLoss(
                margin=margin,
                alpha=alpha,
                Tn=negative_temperature,
                Tp=positive_temperature,
                imbalance=imbalance,
            )
        super().__init__(num_classes, embedding_dim, loss=loss)


class FromPML(PairLoss):
    """Any loss of pytorch-metric-learning, with or without a miner, as a loss of ours.

    Args:
        loss: the loss, one instance; its parameters become ours.
        miner: finds the pairs or triplets; None leaves it to the loss.
        normalized: hand over unit vectors, or the embeddings as they are.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        loss: nn.Module,
        miner: nn.Module | None = None,
        normalized: bool = True,
    ) -> None:
        super().__init__(num_classes, embedding_dim, loss=loss, miner=miner, normalized=normalized)


class AsPML(nn.Module):
    """One of our losses in the shape that loops and trainers of pytorch-metric-learning call.

    Pairs found by a miner are left unused: a proxy loss compares every sample with every proxy.
    """

    def __init__(self, loss: MetricLoss) -> None:
        super().__init__()
        self.loss = loss

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        indices_tuple: object = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> Tensor:
        if ref_emb is not None or ref_labels is not None:
            raise ArgumentError(
                "ref_emb and ref_labels are given; a proxy loss has its proxies for reference"
            )
        value: Tensor = self.loss(embeddings, labels)
        return value
