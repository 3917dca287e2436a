"""Pair-based baselines: losses that compare embeddings with one another, computed by pytorch-metric-learning.

They have no proxies and take the same two arguments as all other losses. Their defaults are those of the
papers, or of the code that the proxy papers compared themselves with.

In the formulas: s cosine similarity, d Euclidean distance of unit vectors; a anchor, p a positive (another
sample of its class), n a negative; [x]+ = max(x, 0).
"""

import warnings
from typing import Any, ClassVar

from torch import Tensor, nn

from lookalike.losses.pml import PMLLoss, pml
from lookalike.losses.search_range import SearchRange
from lookalike.utils.validation import check_at_least, check_choice, check_finite, check_positive


class MultiSimilarity(PMLLoss):
    """mean_i [log(1 + sum_p exp(-alpha*(s_ip - base)))/alpha + log(1 + sum_n exp(beta*(s_in - base)))/beta].

    The sums run over the miner's pairs: negatives nearer than the farthest positive less epsilon, and
    positives farther than the nearest negative plus epsilon. beta is 50 in the paper and 40 in the authors'
    code, which also drops positives with a cosine above 1 - 1e-5 and fails on a class with one sample.
    """

    paper = "Wang et al., Multi-Similarity Loss with General Pair Weighting, CVPR 2019"
    search_space = (
        SearchRange("alpha", 0.01, 100),
        SearchRange("beta", 0.01, 100),
        SearchRange("base", 0, 1),
        SearchRange("epsilon", 0, 1),
    )

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        alpha: float = 2.0,
        beta: float = 50.0,
        base: float = 0.5,
        epsilon: float = 0.1,
    ) -> None:
        check_positive("alpha", alpha)
        check_positive("beta", beta)
        loss = pml("losses").MultiSimilarityLoss(alpha=alpha, beta=beta, base=base)
        super().__init__(
            num_classes, embedding_dim, loss=loss, miner=pml("miners").MultiSimilarityMiner(epsilon=epsilon)
        )


class Margin(PMLLoss):
    """Sum over triplets of [d_ap - beta + margin]+ and [beta - d_an + margin]+, over the count above 0.

    Args:
        margin: alpha in the paper.
        beta: start of the boundary, a trained parameter per class of the anchor (`loss.beta`).
        nu: weight of the mean beta.
        sampling: "distance_weighted", one negative for each anchor and positive, drawn evenly over distances
            (0.5 to 1.4) from torch's global generator, as dropout does; or "all" triplets.
    """

    paper = "Wu et al., Sampling Matters in Deep Embedding Learning, ICCV 2017"
    search_space = (SearchRange("beta", -0.2, 2), SearchRange("margin", -0.2, 2))
    toy_arguments: ClassVar[dict[str, Any]] = {"sampling": "all"}

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        margin: float = 0.2,
        beta: float = 1.2,
        nu: float = 0.0,
        sampling: str = "distance_weighted",
    ) -> None:
        check_choice("sampling", sampling, ("distance_weighted", "all"))
        loss = pml("losses").MarginLoss(
            margin=margin, nu=nu, beta=beta, learn_beta=True, num_classes=num_classes
        )
        miner = pml("miners").DistanceWeightedMiner() if sampling == "distance_weighted" else None
        super().__init__(num_classes, embedding_dim, loss=loss, miner=miner)


class TripletSemihard(PMLLoss):
    """Mean over losses above 0 of [d_ap - d_an + margin]+, over all triplets with 0 < d_an - d_ap <= margin.

    The form that the Proxy-Anchor authors ran; other code draws one such negative per pair.
    """

    paper = "Schroff et al., FaceNet: A Unified Embedding for Face Recognition and Clustering, CVPR 2015"

    def __init__(self, num_classes: int, embedding_dim: int, *, margin: float = 0.1) -> None:
        check_positive("margin", margin)
        loss = pml("losses").TripletMarginLoss(margin=margin)
        miner = pml("miners").TripletMarginMiner(margin=margin, type_of_triplets="semihard")
        super().__init__(num_classes, embedding_dim, loss=loss, miner=miner)


class Triplet(PMLLoss):
    """Mean over losses above 0 of [d_ap - d_an + margin]+, over all triplets of the batch.

    A margin below 0 tolerates triplets that are wrong by up to that much.
    """

    paper = "Schroff et al., FaceNet: A Unified Embedding for Face Recognition and Clustering, CVPR 2015"
    search_space = (SearchRange("margin", -0.2, 2),)

    def __init__(self, num_classes: int, embedding_dim: int, *, margin: float = 0.2) -> None:
        check_finite("margin", margin)
        super().__init__(num_classes, embedding_dim, loss=pml("losses").TripletMarginLoss(margin=margin))


class Contrastive(PMLLoss):
    """Mean over terms above 0 of [d_p - positive_margin]+, plus the same of [negative_margin - d_n]+.

    As later code has it; the paper squares both terms and halves them.
    """

    paper = "Hadsell et al., Dimensionality Reduction by Learning an Invariant Mapping, CVPR 2006"
    search_space = (SearchRange("positive_margin", -0.2, 2), SearchRange("negative_margin", -0.2, 2))

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        positive_margin: float = 0.0,
        negative_margin: float = 0.5,
    ) -> None:
        loss = pml("losses").ContrastiveLoss(pos_margin=positive_margin, neg_margin=negative_margin)
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


class NPairs(PMLLoss):
    """Cross-entropy of dot products of one anchor and positive per class, plus l2_weight * mean squared length.

    The embeddings are not normalized. Of each class with two samples in the batch the first two are the pair.
    For the penalty Proxy-Anchor's repository has 0, and its authors have named 0.02.
    """

    paper = "Sohn, Improved Deep Metric Learning with Multi-class N-pair Loss Objective, NIPS 2016"

    def __init__(self, num_classes: int, embedding_dim: int, *, l2_weight: float = 0.005) -> None:
        check_at_least("l2_weight", l2_weight, 0)
        distance = pml("distances").DotProductSimilarity(normalize_embeddings=False)
        loss = LengthPenalty(pml("losses").NPairsLoss(distance=distance), l2_weight)
        super().__init__(num_classes, embedding_dim, loss=loss, normalized=False)


class LiftedStructure(PMLLoss):
    """Mean over positive pairs of [log sum_n exp(negative_margin - d_n) + d_p - positive_margin]+^2 / 2.

    The sum runs over the negatives of both ends of the pair.
    """

    paper = "Oh Song et al., Deep Metric Learning via Lifted Structured Feature Embedding, CVPR 2016"

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        negative_margin: float = 1.0,
        positive_margin: float = 0.0,
    ) -> None:
        loss = pml("losses").LiftedStructureLoss(neg_margin=negative_margin, pos_margin=positive_margin)
        super().__init__(num_classes, embedding_dim, loss=loss)


class RankedList(PMLLoss):
    """Positives beyond alpha - margin and negatives within alpha, each list averaged by softmax-like weights.

    RLL-H in the tables of others.

    Args:
        margin: m in the paper, between the two boundaries.
        alpha: boundary of the negatives.
        negative_temperature: T_n, weight exp(T_n*(alpha - d)) of a negative.
        positive_temperature: T_p, weight exp(T_p*(d - alpha + margin)) of a positive.
        imbalance: lambda, weight of the negatives' list; the positives' has 1 - lambda.
    """

    paper = "Wang et al., Ranked List Loss for Deep Metric Learning, CVPR 2019"

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
    ) -> None:
        with warnings.catch_warnings():
            # of temperatures above 5; the paper's is 10, and exp(10 * 1.2) is safe
            warnings.simplefilter("ignore")
            loss = pml("losses").RankedListLoss(
                margin=margin,
                alpha=alpha,
                Tn=negative_temperature,
                Tp=positive_temperature,
                imbalance=imbalance,
            )
        super().__init__(num_classes, embedding_dim, loss=loss)
