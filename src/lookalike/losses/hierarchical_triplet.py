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
from lookalike.utils.validation import check_at_least, check_choice

LARGEST = 4.0  # squared distance of unit vectors


def class_spreads(unit_ND: Tensor, labels_N: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    """Mean vectors (C, D), and mean squared distances (C,) of two images of one class.

    A class of fewer than two images gets the mean of the others.
    """
    count_C = torch.bincount(labels_N, minlength=num_classes).to(unit_ND.dtype)
    sum_CD = unit_ND.new_zeros(num_classes, unit_ND.shape[1]).index_add_(0, labels_N, unit_ND)
    pairs_C = count_C * (count_C - 1)
    spread_C = (2 * count_C**2 - 2 * sum_CD.square().sum(dim=1)) / pairs_C
    has_pairs_C = pairs_C > 0
    spread_C = torch.where(has_pairs_C, spread_C, spread_C[has_pairs_C].mean())
    return sum_CD / count_C.clamp_min(1)[:, None], spread_C


def nodes_by_level(
    mean_CD: Tensor, count_C: Tensor, thresholds: NDArray[np.float64], merge: str
) -> NDArray[np.int64]:
    """The node of each class on each level (L+1, C): nodes nearer than the level's threshold are one.

    d(p, q) = mean squared distance of an image of p and one of q = 2 - 2 <mean_p, mean_q>
    """
    from scipy.sparse import coo_array  # slow to import, and needed here only
    from scipy.sparse.csgraph import connected_components

    means, classes = mean_CD.double().numpy(), len(mean_CD)
    if merge == "components":
        first, second = np.triu_indices(classes, k=1)
        heights = (2 - 2 * means @ means.T)[first, second]
    else:
        first, second, heights = average_merges(means, count_C.double().numpy())
    nodes = np.zeros((len(thresholds), classes), dtype=np.int64)
    for level, threshold in enumerate(thresholds[:-1]):  # the last level is one node
        near = heights < threshold
        edges = coo_array((near[near], (first[near], second[near])), shape=(classes, classes))
        nodes[level] = connected_components(edges, directed=False)[1]
    return nodes


def average_merges(
    means: NDArray[np.float64], counts: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The merges of average linkage over images: a class of each of the two nodes, and their distance.

    Nearest neighbors are followed until two are each other's, which then merge: C^2 distances, C at a time.
    """
    means, counts = means.copy(), np.maximum(counts, 1)
    there, chain = np.ones(len(means), dtype=bool), [0]
    merges: list[tuple[int, int, float]] = []
    while len(merges) < len(means) - 1:
        tip = chain[-1]
        distances = np.where(there, 2 - 2 * means @ means[tip], np.inf)
        distances[tip] = np.inf
        nearest = int(distances.argmin())
        if len(chain) > 1 and distances[chain[-2]] <= distances[nearest]:
            nearest = chain[-2]
            merges.append((tip, nearest, float(distances[nearest])))
            total = counts[tip] + counts[nearest]
            means[nearest] = (counts[tip] * means[tip] + counts[nearest] * means[nearest]) / total
            counts[nearest], there[tip] = total, False
            chain = chain[:-2] or [nearest]
        else:
            chain.append(nearest)
    first, second, heights = zip(*merges, strict=True)
    return np.array(first), np.array(second), np.array(heights)


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
