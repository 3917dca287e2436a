"""The contrastive loss of cosine similarities, as HORDE's code trains with it: hinges on similarities, not distances.

Shapes: B batch.
"""

import torch
from torch import Tensor

from lookalike.losses.base import MetricLoss
from lookalike.losses.functional import full_precision, unit_rows
from lookalike.utils.validation import check_between


def cosine_contrastive(sims_BB: Tensor, labels_B: Tensor, *, negative_margin: float) -> Tensor:
    """Half the mean of (1 - s)^2 over positive pairs, plus half the mean of the active s - margin over negatives.

    Negatives are active above the margin. A term without pairs is 0.
    """
    same_BB = labels_B[:, None] == labels_B
    positives_BB = same_BB & ~torch.eye(len(labels_B), dtype=torch.bool, device=sims_BB.device)
    excess_BB = (sims_BB - negative_margin).masked_fill(same_BB, 0.0).clamp_min(0.0)
    squares_BB = ((1 - sims_BB) ** 2).masked_fill(~positives_BB, 0.0)
    positive_term = squares_BB.sum() / positives_BB.sum().clamp_min(1)
    negative_term = excess_BB.sum() / (excess_BB > 0).sum().clamp_min(1)
    return (positive_term + negative_term) / 2


class CosineContrastive(MetricLoss):
    """mean_p (1 - s_p)^2 / 2 + mean over active negatives of (s_n - negative_margin) / 2, s a cosine similarity.

    Args:
        negative_margin: similarity above which a negative counts.
    """

    paper = "released code of Jacob et al., Metric Learning with HORDE, ICCV 2019"

    def __init__(self, num_classes: int, embedding_dim: int, *, negative_margin: float = 0.5) -> None:
        check_between("negative_margin", negative_margin, -1, 1)
        super().__init__(num_classes, embedding_dim)
        self.negative_margin = negative_margin

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        labels = self.checked(embeddings, labels)
        with full_precision(embeddings):
            unit_BD = unit_rows(embeddings)
            return cosine_contrastive(unit_BD @ unit_BD.T, labels, negative_margin=self.negative_margin)
