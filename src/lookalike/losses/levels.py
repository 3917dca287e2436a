"""Levels of a hierarchy of classes: their sizes, their losses, which group belongs to which, and the proxies of groups.

Shapes: P proxies of C classes (or groups) in class-major order, K groups above them, D embedding dimension.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Generator, Tensor

from lookalike.errors import ArgumentError
from lookalike.losses.base import MetricLoss, ProxyLoss
from lookalike.losses.build import Base, build, build_base, class_and_settings
from lookalike.losses.functional import unit_rows
from lookalike.utils.validation import check_at_least

T = TypeVar("T")


def chain(parents: Sequence[Sequence[int]], num_classes: int) -> list[Tensor]:
    """The parent of each group on the level above, from the group of each class on every level.

    Raises:
        ArgumentError: a level of wrong length, an unused group number, or groups that do not nest.
    """
    steps = []
    below = torch.arange(num_classes)
    for depth, given in enumerate(parents):
        array = np.asarray(given)
        if array.shape != (num_classes,) or set(array.tolist()) != set(range(int(array.max()) + 1)):
            raise ArgumentError(
                f"parents[{depth}] must give each of {num_classes} classes a group, from 0 without gaps"
            )
        groups = torch.from_numpy(array.astype(np.int64))
        step = torch.empty(int(below.max()) + 1, dtype=torch.int64).scatter_(0, below, groups)
        if not torch.equal(step[below], groups):
            first = int((step[below] != groups).nonzero()[0])
            raise ArgumentError(f"parents[{depth}] splits a group of the level before (class {first})")
        steps.append(step)
        below = groups
    return steps


def level_sizes(num_classes: int, coarse: Sequence[int] | None, steps: Sequence[Tensor] | None) -> list[int]:
    """Number of classes and of groups on each level; those of a given hierarchy, else `coarse`, else 10.

    Raises:
        ArgumentError: sizes that rise, are below 2, or are not those of the given hierarchy.
    """
    if steps is not None:
        given = [int(step.max()) + 1 for step in steps]
        if coarse is not None and list(coarse) != given:
            raise ArgumentError(f"coarse is {list(coarse)}, but parents have {given}; leave coarse out")
        coarse = given
    sizes = [num_classes, *(coarse if coarse is not None else (10,))]
    if len(sizes) < 2:
        raise ArgumentError("coarse is empty; give the number of groups of at least one coarse level")
    for above, below in zip(sizes[1:], sizes, strict=False):
        check_at_least("coarse (groups of a level)", above, 2)
        if above > below:
            raise ArgumentError(
                f"coarse has {above} groups on a level above {below}; lower it to {below} or fewer"
            )
    return sizes


def one_per_level(what: str, values: Sequence[T] | None, levels: int, default: T) -> list[T]:
    """The values, or the default for every level; refuses another number of them."""
    if values is None:
        return [default] * levels
    if len(values) != levels:
        raise ArgumentError(f"{what} has {len(values)} entries; expected one per level, {levels}")
    return list(values)


def build_levels(
    base: Base,
    sizes: Sequence[int],
    embedding_dim: int,
    level_settings: Sequence[Mapping[str, Any]] | None,
    generator: Generator | None,
) -> list[ProxyLoss]:
    """One loss per level, classes first; a ready base is the first one unless settings of its level differ."""
    kind, settings = class_and_settings(base)
    levels: list[ProxyLoss] = []
    level: MetricLoss
    for size, extra in zip(
        sizes, one_per_level("level_settings", level_settings, len(sizes), {}), strict=True
    ):
        if not levels and not extra:
            level = build_base(base, size, embedding_dim, generator)
        else:
            level = build(kind, size, embedding_dim, {**settings, **extra}, generator)
        if not isinstance(level, ProxyLoss):
            raise ArgumentError(f"base is a {type(level).__name__}; every level takes a loss with proxies")
        levels.append(level)
    if len({level.proxies_per_class for level in levels}) > 1:
        raise ArgumentError("level_settings differ in proxies per class; give every level the same number")
    return levels


def group_means(proxies_PD: Tensor, parent_C: Tensor, groups: int) -> Tensor:
    """Means of the unit proxies of each group's classes; the n-th proxies make the n-th mean."""
    unit_CND = unit_rows(proxies_PD).view(len(parent_C), -1, proxies_PD.shape[1])
    sums_KND = unit_CND.new_zeros(groups, *unit_CND.shape[1:]).index_add(0, parent_C, unit_CND)
    counts_K = unit_CND.new_zeros(groups).index_add(0, parent_C, unit_CND.new_ones(len(parent_C)))
    return (sums_KND / counts_K[:, None, None]).flatten(0, 1)
