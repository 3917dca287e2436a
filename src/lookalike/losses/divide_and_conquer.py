"""Divide and Conquer: the training images fall into K clusters, and each trains a slice of the embedding of its own.

Shapes: N training images, B batch, D dimension, K learners.
"""

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor, nn

from lookalike.errors import ArgumentError
from lookalike.losses.batch_planner import BatchPlanner, Rows, draw_images, rows_by_class
from lookalike.losses.build import Base, build, class_and_settings
from lookalike.losses.functional import full_precision, unit_rows
from lookalike.losses.spherical_kmeans import spherical_kmeans
from lookalike.utils.validation import check_at_least, check_between


def keep_numbers(now_N: Rows, before_N: Rows, clusters: int) -> Rows:
    """New clusters under the numbers of the earlier ones with which they share most images."""
    from scipy.optimize import linear_sum_assignment  # slow to import, and needed here only

    shared = np.zeros((clusters, clusters), dtype=np.int64)
    np.add.at(shared, (now_N, before_N), 1)
    sizes = [np.bincount(numbers, minlength=clusters) for numbers in (now_N, before_N)]
    in_one_only = sizes[0][:, None] + sizes[1] - 2 * shared
    _, number = linear_sum_assignment(in_one_only)
    return np.asarray(number[now_N], dtype=np.int64)


class DivideAndConquer(BatchPlanner):
    """The base loss of one slice of the embedding per batch, all images of which are of the slice's cluster.

    Every `every` epochs k-means clusters unit vectors of all training images. Batches then take turns: one of
    cluster 0, which trains slice 0, one of cluster 1, and so on. An image that is the only one of its class in its
    cluster is left out. Late in training batches train the whole embedding, first still by cluster, then not.

    Args:
        base: a loss without proxies: a name, or {"name": ..., "settings": {...}}; the paper's results are of the
            margin loss with distance-weighted sampling (`margin`), its released code has `nearest_margin`.
        learners: K; 8 in the released code, 4 on CUB-200-2011 and Cars196 by its authors.
        every: T, epochs between two clusterings.
        slices_until: share of the epochs with a slice per batch; later the base sees the whole embedding.
        clusters_until: share of the epochs with batches by cluster. Both defaults are the README's command.
        cluster_pooled: cluster the pooled vectors before the projection, as the code does, or the embeddings.
        unit_slices: make each slice of the whole embedding unit length, as the code does; its evaluation does so
            too, and that of this package does not.
        seed: of k-means.

    In evaluation mode, and before the first `plan`, it is the base on the whole embedding.
    """

    paper = "Sanakoyeu et al., Divide and Conquer the Embedding Space for Metric Learning, CVPR 2019"
    toy_arguments: ClassVar[dict[str, Any]] = {"learners": 2}

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        base: Base = "nearest_margin",
        learners: int = 4,
        every: int = 2,
        slices_until: float = 0.4,
        clusters_until: float = 0.95,
        cluster_pooled: bool = True,
        unit_slices: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(num_classes, embedding_dim)
        check_between("learners", learners, 2, embedding_dim)
        check_at_least("every", every, 1)
        check_between("clusters_until", clusters_until, 0, 1)
        check_between("slices_until", slices_until, 0, clusters_until)
        self.learners = learners
        self.every = every
        self.slices_until = slices_until
        self.clusters_until = clusters_until
        self.cluster_pooled = cluster_pooled
        self.unit_slices = unit_slices
        self.seed = seed
        kind, settings = class_and_settings(base)
        widths = [len(part) for part in np.array_split(np.arange(embedding_dim), learners)]
        self.of_slice = nn.ModuleList(build(kind, num_classes, width, settings) for width in widths)
        self.of_whole = build(kind, num_classes, embedding_dim, settings)
        if self.of_whole.proxy_loss is not None:
            raise ArgumentError(
                f"base is a {kind.__name__}, which has proxies; learners take a loss of pairs"
            )
        self.cluster_N = np.zeros(0, dtype=np.int64)
        self._turns: list[int] = []

    @property
    def reads_pooled(self) -> bool:
        """Whether pooled vectors are clustered."""
        return self.cluster_pooled

    def needs_update(self, epoch: int, done: float) -> bool:
        """Every few epochs, while batches are by cluster."""
        return done < self.clusters_until and (epoch - 1) % self.every == 0

    def update(self, vectors_ND: Tensor, labels_N: Tensor) -> None:
        """Clusters the images again; a cluster keeps the number, and so the slice, of an earlier one."""
        unit_ND = unit_rows(vectors_ND).numpy()
        found_N = spherical_kmeans(unit_ND, self.learners, seed=self.seed)
        if len(self.cluster_N) == len(found_N):
            found_N = keep_numbers(found_N, self.cluster_N, self.learners)
        self.cluster_N = found_N

    def plan(
        self, labels_N: Rows, draws: Generator, *, done: float, classes: int, per_class: int
    ) -> list[list[int]]:
        """Batches by turns; as many rounds as the largest cluster fills batches, at least one."""
        by_cluster = done < self.clusters_until and len(self.cluster_N) == len(labels_N)
        groups = [np.flatnonzero(self.cluster_N == k) for k in range(self.learners)]
        if not by_cluster:
            groups = [np.arange(len(labels_N))]
        members = {k: found for k, rows in enumerate(groups) if (found := rows_by_class(labels_N, rows))}
        if not members:
            raise ArgumentError(
                "no class has two images in the same cluster; use fewer learners or classes with more images"
            )
        largest = max(sum(map(len, found.values())) for found in members.values())
        turns = [*members] * max(1, largest // (classes * per_class))
        self._turns = turns[::-1] if by_cluster and done < self.slices_until else []
        return [
            draw_images(members[k], draws.permutation(list(members[k]))[:classes], per_class, draws)
            for k in turns
        ]

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        labels = self.checked(embeddings, labels)
        value: Tensor
        if self.training and self._turns:
            learner = self._turns.pop()
            value = self.of_slice[learner](embeddings.tensor_split(self.learners, dim=1)[learner], labels)
        else:
            value = self.of_whole(self._whole(embeddings), labels)
        return value

    def _whole(self, embeddings_BD: Tensor) -> Tensor:
        if not self.unit_slices:
            return embeddings_BD
        with full_precision(embeddings_BD):
            return torch.cat(
                [unit_rows(part) for part in embeddings_BD.tensor_split(self.learners, dim=1)], dim=1
            )

    def get_extra_state(self) -> Tensor:
        """The clusters, so that a resumed run continues with them."""
        return torch.from_numpy(self.cluster_N.copy())

    def set_extra_state(self, state: Tensor) -> None:
        self.cluster_N = state.numpy().copy()
