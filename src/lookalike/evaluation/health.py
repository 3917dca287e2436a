"""Diagnostics of collapsed embeddings: how many directions they use, and how similar classes are on average.

    effective rank = exp( - sum_i p_i log p_i ),  p_i = s_i / sum s,  s: singular values of the matrix
        (Roy & Vetterli 2007): 1 when every row lies on one line, D when all directions are used alike.
    within  = mean cosine of two different rows of one class;  between = of two rows of different classes.

Both means are exact, from sums: the cosines in a set of unit vectors add up to the squared length of its sum.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

COLLAPSED_SIMILARITY = 0.95
COLLAPSED_RANK = 1.5


@dataclass(frozen=True)
class Health:
    """Figures of one embedding matrix.

    Attributes:
        effective_rank: between 1 and min(N, D).
        within: mean cosine within classes; NaN when no class has two rows.
        between: mean cosine between classes; NaN with one class.
        collapsed: all rows are nearly the same, or not finite; retrieval metrics then mean little.
        warning: one sentence when collapsed, else empty.
    """

    effective_rank: float
    within: float
    between: float
    collapsed: bool
    warning: str


def embedding_health(embeddings: Any, labels: Any) -> Health:
    """Health of (N, D) embeddings with (N,) labels; a row of zeros has cosine 0 with everything.

    The effective rank is that of the unit rows, not centered: a shift common to all rows is a collapse too.
    Rows that are not finite are reported as a collapse, never as an error.
    """
    labels = labels.detach().cpu().numpy() if torch.is_tensor(labels) else np.asarray(labels)
    classes, inverse = np.unique(labels, return_inverse=True)
    codes = torch.from_numpy(inverse)
    count, dim = len(embeddings), embeddings.shape[1]
    sums = torch.zeros(len(classes), dim, dtype=torch.float64)
    moment = torch.zeros(dim, dim, dtype=torch.float64)
    own = torch.zeros(len(classes), dtype=torch.float64)
    broken = 0
    for start in range(0, count, 4096):
        part = embeddings[start : start + 4096]
        rows = part.detach().cpu() if torch.is_tensor(part) else torch.from_numpy(np.array(part, np.float64))
        rows = rows.to(torch.float64)
        broken += int((~torch.isfinite(rows).all(dim=1)).sum())
        rows = torch.nn.functional.normalize(torch.nan_to_num(rows, 0.0, 0.0, 0.0), eps=1e-150)
        sums.index_add_(0, codes[start : start + 4096], rows)
        own.index_add_(0, codes[start : start + 4096], rows.square().sum(dim=1))
        moment += rows.T @ rows
    sizes = torch.bincount(codes, minlength=len(classes)).to(torch.float64)
    alike = sums.square().sum(dim=1)
    pairs_within = float((sizes * (sizes - 1)).sum())
    pairs_between = float(count * count - sizes.square().sum())
    within = float((alike - own).sum()) / pairs_within if pairs_within else float("nan")
    between = (
        float(sums.sum(dim=0).square().sum() - alike.sum()) / pairs_between if pairs_between else float("nan")
    )
    rank = _effective_rank(moment)
    overall = within if np.isnan(between) else between
    collapsed = bool(broken or rank < COLLAPSED_RANK or overall > COLLAPSED_SIMILARITY)
    warning = ""
    if broken:
        warning = f"{broken:,} of {count:,} embeddings are not finite; lower the learning rate"
    elif collapsed:
        warning = (
            f"embeddings have collapsed: effective rank {rank:.1f} of {min(count, dim)}, mean cosine between "
            f"classes {overall:.3f}; lower the learning rate or check the pooling"
        )
    return Health(rank, within, between, collapsed, warning)


def _effective_rank(moment_DD: torch.Tensor) -> float:
    """From the second moment of the rows, whose eigenvalues are the squared singular values of the matrix."""
    values = torch.linalg.eigvalsh(moment_DD).clamp_min(0).sqrt()
    total = float(values.sum())
    if total == 0:
        return 0.0
    shares = values / total
    shares = shares[shares > 0]
    return float(torch.exp(-(shares * shares.log()).sum()))
