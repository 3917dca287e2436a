"""HPL: a proxy loss on several levels, where a coarse proxy stands for a group of classes that look alike.

One proxy loss is applied to the classes, to groups of classes, perhaps to groups of groups. The groups need no
labels: every few iterations k-means clusters the proxies of one level into those of the next.

There is no public code, and only the paper's supplement was read. It gives: a proxy loss on several levels,
unit vectors, coarse proxies by clustering, renewed every T iterations, the same settings on all levels unless
tuned, and the variant with a given hierarchy. Everything else is an argument here, without a claim that the
authors chose its default.

Shapes: C classes, D dimension.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call

from lookalike.errors import ArgumentError
from lookalike.losses.base import MetricLoss, ProxyLoss
from lookalike.losses.build import Base
from lookalike.losses.class_tree import Tree, build_tree
from lookalike.losses.functional import unit_rows
from lookalike.losses.levels import build_levels, chain, group_means, level_sizes, one_per_level
from lookalike.losses.spherical_kmeans import spherical_kmeans
from lookalike.utils.validation import check_at_least, check_choice


class HierarchicalProxyLoss(MetricLoss):
    """HPL: L = sum_l level_weights[l] * base(x, y_l, P_l), with y_0 the class and y_{l+1} = parent_l[y_l].

    Args:
        base: the proxy loss of all levels: a name, {"name": ..., "settings": {...}}, or a ready loss, which
            then is the level of the classes.
        coarse: number of groups on each coarse level, finest first, not rising; 10 on one level when None.
        update_every: T, iterations between two clusterings.
        coarse_mode: what coarse proxies are between two clusterings. "free": parameters that start at the mean
            directions of their groups; their optimizer state has to be dropped (`pop_reset_parameters`).
            "means": the means of their members at each step, with gradient to the members. "constant": fixed.
        level_weights: one per level, classes first; 1 each when None.
        parents: a given hierarchy instead of the learned one: for each coarse level the group of each class.
            In mode "free" its proxies are set once, at the start.
        start_after: iterations with the level of the classes only, before the first clustering. Groups of
            random proxies are random and stay so: start late, or with proxies at class means.
        level_settings: for each level, classes first, settings of the base that differ there.
        seed: of k-means, which starts by k-means++ once and from the current means of the groups afterwards.
        generator: source of the proxies' random start.

    In training mode `forward` counts iterations and clusters when due; in evaluation mode it changes nothing.
    """

    paper = "Yang et al., Hierarchical Proxy-based Loss for Deep Metric Learning, WACV 2022"
    toy_arguments: ClassVar[dict[str, Any]] = {"coarse": (2,)}

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        base: Base = "proxy_anchor",
        coarse: Sequence[int] | None = None,
        update_every: int = 20,
        coarse_mode: str = "free",
        level_weights: Sequence[float] | None = None,
        parents: Sequence[Sequence[int]] | None = None,
        start_after: int = 0,
        level_settings: Sequence[Mapping[str, Any]] | None = None,
        seed: int = 0,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(num_classes, embedding_dim)
        check_at_least("update_every", update_every, 1)
        check_at_least("start_after", start_after, 0)
        check_choice("coarse_mode", coarse_mode, ("free", "means", "constant"))
        steps = None if parents is None else chain(parents, num_classes)
        sizes = level_sizes(num_classes, coarse, steps)
        self.update_every = update_every
        self.coarse_mode = coarse_mode
        self.start_after = start_after
        self.seed = seed
        self.given = steps is not None
        self.level_weights = one_per_level("level_weights", level_weights, len(sizes), 1.0)
        self.iteration = 0

        levels = build_levels(base, sizes, embedding_dim, level_settings, generator)
        self.levels = nn.ModuleList(levels)
        for depth, level in enumerate(levels[1:]):
            level.proxies.requires_grad_(coarse_mode == "free")
            unknown = torch.zeros(sizes[depth], dtype=torch.int64)
            self.register_buffer(f"parent_{depth}", unknown if steps is None else steps[depth])

    @property
    def proxy_loss(self) -> ProxyLoss:
        """The level of the classes."""
        return self._level(0)

    @property
    def proxies(self) -> nn.Parameter:
        """Proxies of the classes, (C*N, D)."""
        return self.proxy_loss.proxies

    def similarities(self, embeddings: Tensor) -> Tensor:
        """Cosines (B, C*N) of embeddings and the proxies of the classes."""
        return self.proxy_loss.similarities(embeddings)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        labels = self.checked(embeddings, labels)
        if self.training:
            since = self.iteration - self.start_after
            if since >= 0 and since % self.update_every == 0:
                self._regroup()
            self.iteration += 1
        levels = self._labeled_levels(labels)
        terms = [
            weight * functional_call(level, {"proxies": proxies}, (embeddings, labels))
            for weight, level, proxies, labels in levels
        ]
        return torch.stack(terms).sum()

    def _labeled_levels(self, labels: Tensor) -> list[tuple[float, ProxyLoss, Tensor, Tensor]]:
        """Weight, loss, proxies and the batch's labels of each level that is in the loss so far."""
        proxies: Tensor = self.proxies
        levels = [(self.level_weights[0], self.proxy_loss, proxies, labels)]
        for depth, level, parent in self._coarse_levels() if self.grouped else ():
            means = self.coarse_mode == "means"
            proxies = group_means(proxies, parent, level.num_classes) if means else level.proxies
            labels = parent[labels]
            levels.append((self.level_weights[depth], level, proxies, labels))
        return levels

    @property
    def grouped(self) -> bool:
        """Whether the classes have been clustered; until then only the level of the classes is in the loss."""
        return self.iteration > self.start_after

    @torch.no_grad()
    def _regroup(self) -> None:
        """Clusters the classes by their proxies, level by level, and puts the coarse proxies at the means."""
        below = self.proxies
        for _, level, parent in self._coarse_levels():
            groups = level.num_classes
            if not self.given:
                unit_CD = unit_rows(unit_rows(below).view(len(parent), -1, self.embedding_dim).mean(dim=1))
                start = group_means(unit_CD, parent, groups).cpu().numpy() if self.grouped else None
                found = spherical_kmeans(unit_CD.cpu().numpy(), groups, start_KD=start, seed=self.seed)
                parent.copy_(torch.from_numpy(found))
            if not (self.given and self.grouped and self.coarse_mode == "free"):
                level.proxies.copy_(unit_rows(group_means(below, parent, groups)))
                if self.coarse_mode == "free":
                    self._reset.append(level.proxies)
            below = level.proxies

    def groups(self) -> list[list[int]]:
        """For each coarse level, finest first, the group of each class.

        Raises:
            ArgumentError: the classes have not been clustered yet.
        """
        if not (self.given or self.grouped):
            raise ArgumentError("the classes have no groups yet; call the loss in training mode first")
        result, above = [], torch.arange(self.num_classes)
        for _, _, parent in self._coarse_levels():
            above = parent.cpu()[above]
            result.append(above.tolist())
        return result

    def tree(self, class_names: Sequence[str]) -> Tree:
        """The classes nested in their groups, for JSON."""
        if len(class_names) != self.num_classes:
            raise ArgumentError(f"{len(class_names)} class names are given for {self.num_classes} classes")
        return build_tree(self.groups(), class_names)

    def get_extra_state(self) -> Tensor:
        """Iterations so far, in the state dict so that a resumed run clusters at the same steps."""
        return torch.tensor(self.iteration)

    def set_extra_state(self, state: Tensor) -> None:
        self.iteration = int(state)

    def _level(self, depth: int) -> ProxyLoss:
        level = self.levels[depth]
        assert isinstance(level, ProxyLoss)
        return level

    def _coarse_levels(self) -> list[tuple[int, ProxyLoss, Tensor]]:
        """Depth, loss, and parents of the level below, for each coarse level."""
        return [
            (depth, self._level(depth), self.get_buffer(f"parent_{depth - 1}"))
            for depth in range(1, len(self.levels))
        ]
