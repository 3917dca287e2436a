"""Inputs that the tests of single losses share: random cosines, and a case small enough to work out by hand.

By hand: embeddings (1,0), (.6,.8), (0,1), (-.8,.6) of classes 0, 0, 1, 1, and proxies (1,0), (0,2), (-3,0).
"""

import torch
from hypothesis import settings
from torch import Tensor

few_examples = settings(max_examples=30, deadline=None, derandomize=True)

HAND_EMBEDDINGS = [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [-0.8, 0.6]]
HAND_LABELS = [0, 0, 1, 1]
HAND_PROXIES = [[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]]
HAND_SIMS = [[1.0, 0.0, -1.0], [0.6, 0.8, -0.6], [0.0, 1.0, 0.0], [-0.8, 0.6, 0.8]]


def hand_loss(loss) -> Tensor:
    """Value of a loss of three classes in the case worked by hand."""
    loss = loss.double()
    if loss.proxy_loss is not None:
        loss.proxy_loss.proxies.data = torch.tensor(HAND_PROXIES, dtype=torch.float64)
    return loss(torch.tensor(HAND_EMBEDDINGS, dtype=torch.float64), torch.tensor(HAND_LABELS))


def of_similarities(kind, sims: Tensor, labels: Tensor, *, centers: int = 1, **arguments) -> Tensor:
    """Value of a loss of class `kind` for given similarities, without terms of the proxies alone."""
    loss = kind(max(2, sims.shape[1] // centers), 2, **arguments)
    return loss.loss_from_similarities(sims, labels)


def random_sims(seed: int, *, proxies_per_class: int = 1) -> tuple[Tensor, Tensor]:
    """Cosines (B, C*N) and labels of 1 to 8 samples and 2 to 6 classes, some of them absent."""
    g = torch.Generator().manual_seed(seed)
    batch = int(torch.randint(1, 9, (), generator=g))
    classes = int(torch.randint(2, 7, (), generator=g))
    sims = torch.rand(batch, classes * proxies_per_class, generator=g, dtype=torch.float64) * 2 - 1
    return sims, torch.randint(0, classes, (batch,), generator=g)
