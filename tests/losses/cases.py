"""One small, ready problem for every loss in the table, for the laws that all of them obey.

A new loss is a case by its line in `LOSSES`, with the arguments `toy_arguments` of its class; other arguments of
losses that are worth the laws stand here.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from lookalike.losses import LOSSES, MetricLoss
from lookalike.losses.build import build

CLASSES, DIM, CHANNELS = 5, 4, 3

SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, kind.toy_arguments) for name, kind in LOSSES.items()},
    "proxy_nca, softmax form, smoothed": (
        "proxy_nca",
        {"include_positive": True, "label_smoothing": 0.1, "temperature": 1 / 9},
    ),
    "proxy_gml, as the authors' code": ("proxy_gml", {"mask": "nonzero", "neighbor_ratio": 0.5}),
    "proxy_gml, paper's bonus": ("proxy_gml", {"positive_bonus": 1.0, "neighbor_ratio": 0.5}),
    "hierarchical, means, several proxies": (
        "hierarchical",
        {
            "coarse": (3, 2),
            "coarse_mode": "means",
            "base": {"name": "soft_triple", "settings": {"centers_per_class": 2}},
        },
    ),
    "hierarchical, constant, given": (
        "hierarchical",
        {"parents": [[0, 0, 1, 1, 1]], "coarse_mode": "constant", "base": "proxy_nca_pp"},
    ),
    "horde of proxies": (
        "horde",
        {"channels": CHANNELS, "orders": 2, "moment_channels": 6, "base": "norm_softmax"},
    ),
}
CASES = list(SETTINGS)


@dataclass
class Problem:
    """A loss at a random start, in evaluation mode, with a batch in which class 4 is absent."""

    loss: MetricLoss
    embeddings: Tensor
    labels: Tensor
    maps: Tensor = field(repr=False)

    def value(self, **other: Any) -> Tensor:
        """The loss of this batch, or of one with other embeddings, labels or maps."""
        batch = {"embeddings": self.embeddings, "labels": self.labels, "maps": self.maps, **other}
        return call(self.loss, batch["embeddings"], batch["labels"], batch["maps"])


def call(loss: torch.nn.Module, embeddings: Tensor, labels: Tensor, maps: Tensor) -> Tensor:
    return loss(embeddings, labels, *([maps[: len(embeddings)]] if loss.needs_feature_maps else []))


def problem(
    case: str, *, seed: int = 0, dtype: torch.dtype = torch.float64, classes: int = CLASSES
) -> Problem:
    """The problem of a case; a hierarchical loss has seen one training step, so that it has groups."""
    name, settings = SETTINGS[case]
    g = torch.Generator().manual_seed(seed)
    loss = build(LOSSES[name], classes, DIM, settings, g).to(dtype)
    labels = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3, 0, 1]) % classes
    embeddings = torch.randn(len(labels), DIM, generator=g, dtype=torch.float64).to(dtype)
    maps = torch.randn(len(labels), CHANNELS, 2, 2, generator=g, dtype=torch.float64).to(dtype)
    call(loss.train(), embeddings, labels, maps)
    loss.pop_reset_parameters()
    return Problem(loss.eval(), embeddings, labels, maps)


every_case = pytest.mark.parametrize("case", CASES)
