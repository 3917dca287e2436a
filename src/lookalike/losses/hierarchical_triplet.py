"""HTL: triplets with a margin that grows with the distance of their classes in a tree, in batches of near classes.

Shapes: N training images, B batch, D dimension, C classes, L levels of the tree above its leaves.
"""

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from lookalike.errors import ArgumentError
from lookalike.losses.batch_planner import BatchPlanner, Rows, draw_images, rows_by_class
from lookalike.losses.functional import full_precision, unit_rows
from lookalike.losses.linkage import class_spreads, nodes_by_level
from lookalike.utils.validation import check_at_least, check_choice

LARGEST = 4.0  # squared distance of unit vectors


class HierarchicalTriplet(BatchPlanner):
    """HTL: mean over all triplets, active or not, of [|a - p|^2 - |a - n|^2 + margin(a, n)]+ / 2, of unit vectors.

    margin(a, n) = beta + d_H - s_a:  s_a mean squared distance of two images of a's class, d_H threshold of the
    lowest level of the tree on which the classes of a and n are one node; thresholds rise evenly from the mean s to 4.

    A batch is of neighborhoods: a random class with the classes nearest to it. Takes B^3 numbers of memory.

    Args:
        beta: the margin until the first tree, and the least one of a class of mean spread.
        levels: L.
        neighborhood: m, classes per neighborhood; `batch.classes` is a multiple of it.
        every: epochs between two trees.
        merge: distance of two nodes: "average" over their images, or "components", that of their nearest classes.

    Only restatements of the paper were read: they give the formulas and beta. `levels`, `neighborhood`, `every` and
    `merge` are in none of them, and the choices here are ours. A class with one image has the mean spread.
    """

    paper = "Ge et al., Deep Metric Learning with Hierarchical Triplet Loss, ECCV 2018"
    toy_arguments: ClassVar[dict[str, Any]] = {"neighborhood": 2}

    spread_C: Tensor
    threshold_L: Tensor
    node_LC: Tensor
    mean_CD: Tensor

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        beta: float = 0.1,
        levels: int = 16,
        neighborhood: int = 4,
        every: int = 1,
        merge: str = "average",
    ) -> None:
        super().__init__(num_classes, embedding_dim)
        check_at_least("levels", levels, 1)
        check_at_least("neighborhood", neighborhood, 2)
        check_at_least("every", every, 1)
        check_choice("merge", merge, ("average", "components"))
        self.beta = beta
        self.levels = levels
        self.neighborhood = neighborhood
        self.every = every
        self.merge = merge
        kind = torch.float32
        self.register_buffer("spread_C", torch.zeros(num_classes, dtype=kind))
        self.register_buffer("threshold_L", torch.zeros(levels + 1, dtype=kind))
        self.register_buffer("node_LC", torch.zeros(levels + 1, num_classes, dtype=torch.int64))
        self.register_buffer("mean_CD", torch.zeros(num_classes, embedding_dim, dtype=kind))

    @property
    def reads_pooled(self) -> bool:
        """False: the tree is of embeddings."""
        return False

    def needs_update(self, epoch: int, done: float) -> bool:
        """Every few epochs."""
        return (epoch - 1) % self.every == 0

    @torch.no_grad()
    def update(self, vectors_ND: Tensor, labels_N: Tensor) -> None:
        """Builds the tree of the classes."""
        count_C = torch.bincount(labels_N, minlength=self.num_classes)
        mean_CD, spread_C = class_spreads(unit_rows(vectors_ND), labels_N, self.num_classes)
        thresholds = np.linspace(float(spread_C[count_C > 1].mean()), LARGEST, self.levels + 1)
        self.spread_C.copy_(spread_C)
        self.mean_CD.copy_(mean_CD)
        self.threshold_L.copy_(torch.from_numpy(thresholds))
        self.node_LC.copy_(torch.from_numpy(nodes_by_level(mean_CD, count_C, thresholds, self.merge)))

    def plan(
        self, labels_N: Rows, draws: Generator, *, done: float, classes: int, per_class: int
    ) -> list[list[int]]:
        """As many batches as the images fill."""
        members = rows_by_class(labels_N, np.arange(len(labels_N)))
        if classes % self.neighborhood or classes > len(members):
            raise ArgumentError(
                f"batch.classes is {classes}; batches of neighborhoods of {self.neighborhood} classes need a multiple "
                f"of it, at most the {len(members)} classes with two images or more"
            )
        known = np.array(list(members))
        means = self.mean_CD.cpu().numpy()[known]
        batches = max(1, sum(map(len, members.values())) // (classes * per_class))
        return [
            draw_images(members, known[self._neighbors(means, classes, draws)], per_class, draws)
            for _ in range(batches)
        ]

    def _neighbors(self, means: NDArray[Any], classes: int, draws: Generator) -> list[int]:
        """Positions of the classes of a batch: random ones, each with the nearest that are not in the batch yet."""
        chosen: list[int] = []
        for anchor in draws.permutation(len(means)).tolist():
            if len(chosen) == classes:
                break
            if anchor in chosen:
                continue
            order = np.argsort(-(means @ means[anchor]), kind="stable").tolist()
            others = [c for c in order if c != anchor and c not in chosen]
            chosen += [anchor, *others[: self.neighborhood - 1]]
        return chosen

    def margins(self, labels_B: Tensor) -> Tensor:
        """The margin (B, B) of each sample as the anchor against the class of each other one."""
        nodes_LB = self.node_LC[:, labels_B]
        level_BB = (nodes_LB[:, :, None] != nodes_LB[:, None, :]).sum(dim=0)
        return self.beta + self.threshold_L[level_BB] - self.spread_C[labels_B][:, None]

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        labels = self.checked(embeddings, labels)
        with full_precision(embeddings):
            unit_BD = unit_rows(embeddings)
            squared_BB = 2 - 2 * unit_BD @ unit_BD.T
            same_BB = labels[:, None] == labels
            positive_BB = same_BB & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
            against_BB = squared_BB - self.margins(labels).to(squared_BB.dtype)
            losses_BBB = (squared_BB[:, :, None] - against_BB[:, None, :]).clamp_min(0.0)
            triplet_BBB = positive_BB[:, :, None] & ~same_BB[:, None, :]
            return losses_BBB.masked_fill(~triplet_BBB, 0.0).sum() / (2 * triplet_BBB.sum().clamp_min(1))
