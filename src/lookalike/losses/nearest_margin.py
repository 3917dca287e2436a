"""The margin loss over the nearest negatives, as Divide and Conquer's released code trains its learners.

Shapes: B batch, T triplets.
"""

import torch
from torch import Tensor

from lookalike.losses.base import MetricLoss
from lookalike.losses.functional import full_precision, unit_rows
from lookalike.utils.validation import check_at_least, check_choice

Triplets = tuple[Tensor, Tensor, Tensor]


def nearest_triplets(distances_BB: Tensor, labels_B: Tensor, cutoff: float) -> Triplets:
    """Anchors, positives and negatives: of each anchor as many pairs of both kinds as it has of the rarer kind.

    Negatives are the k nearest at `cutoff` or farther, k the mean number of positives of a sample, rounded down.
    Where an anchor has more of one kind, those first in the batch are kept.
    """
    same_BB = labels_B[:, None] == labels_B
    positive_BB = same_BB & ~torch.eye(len(labels_B), dtype=torch.bool, device=labels_B.device)
    k = int(positive_BB.sum()) // len(labels_B)
    eligible_BB = ~same_BB & (distances_BB >= cutoff)
    order_BB = distances_BB.masked_fill(~eligible_BB, torch.inf).argsort(dim=1, stable=True)
    negative_BB = eligible_BB & torch.zeros_like(same_BB).scatter(1, order_BB[:, :k], True)
    kept_B = torch.minimum(positive_BB.sum(dim=1), negative_BB.sum(dim=1))
    (anchor_T, positive_T), (_, negative_T) = (
        (pairs_BB & (pairs_BB.cumsum(dim=1) <= kept_B[:, None])).nonzero(as_tuple=True)
        for pairs_BB in (positive_BB, negative_BB)
    )
    return anchor_T, positive_T, negative_T


class NearestMargin(MetricLoss):
    """Sum over triplets of [d_ap - beta + margin]+ and [beta - d_an + margin]+, over the count above 0.

    d = sqrt(|a - p|^2 + 1e-8), of unit vectors; triplets as `nearest_triplets` says.

    Args:
        margin: alpha in the paper.
        beta: the boundary between near and far; constant, as the released code leaves it.
        cutoff: distance below which a negative is not chosen.
        divide_by: "terms" above 0, or "triplets" with any such term, which the released code counts under
            today's PyTorch.
    """

    paper = "released code of Sanakoyeu et al., Divide and Conquer the Embedding Space, CVPR 2019"

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        margin: float = 0.2,
        beta: float = 1.2,
        cutoff: float = 0.5,
        divide_by: str = "terms",
    ) -> None:
        check_at_least("cutoff", cutoff, 0)
        check_choice("divide_by", divide_by, ("terms", "triplets"))
        super().__init__(num_classes, embedding_dim)
        self.margin = margin
        self.beta = beta
        self.cutoff = cutoff
        self.divide_by = divide_by

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        labels = self.checked(embeddings, labels)
        with full_precision(embeddings):
            unit_BD = unit_rows(embeddings)
            distances_BB = (2 - 2 * unit_BD @ unit_BD.T).clamp_min(0.0).add(1e-8).sqrt()
            anchor_T, positive_T, negative_T = nearest_triplets(distances_BB.detach(), labels, self.cutoff)
            far_T = (distances_BB[anchor_T, positive_T] - self.beta + self.margin).clamp_min(0.0)
            near_T = (self.beta - distances_BB[anchor_T, negative_T] + self.margin).clamp_min(0.0)
            if self.divide_by == "triplets":
                active = ((far_T > 0) | (near_T > 0)).sum()
            else:
                active = (far_T > 0).sum() + (near_T > 0).sum()
            return (far_T.sum() + near_T.sum()) / active.clamp_min(1)
