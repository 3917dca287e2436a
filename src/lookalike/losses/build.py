"""BASE_LOSSES, the losses that wrap no other loss, and how a wrapper builds its base.

A base is a name, a mapping of name and settings, or a ready loss.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import Generator

from lookalike.errors import ArgumentError
from lookalike.losses.arcface import ArcFace, CosFace
from lookalike.losses.base import MetricLoss, ProxyLoss
from lookalike.losses.contrastive import CosineContrastive
from lookalike.losses.nearest_margin import NearestMargin
from lookalike.losses.norm_softmax import NormSoftmax
from lookalike.losses.pairs import (
    Contrastive,
    LiftedStructure,
    Margin,
    MultiSimilarity,
    NPairs,
    RankedList,
    Triplet,
    TripletSemihard,
)
from lookalike.losses.pml_named import NamedPML
from lookalike.losses.potential_field import PotentialField
from lookalike.losses.proxy_anchor import ProxyAnchor
from lookalike.losses.proxy_gml import ProxyGML
from lookalike.losses.proxy_nca import ProxyNCA, ProxyNCAPlusPlus
from lookalike.losses.soft_triple import SoftTriple
from lookalike.utils.validation import look_up

BASE_LOSSES: dict[str, type[MetricLoss]] = {
    "proxy_nca": ProxyNCA,
    "proxy_nca_pp": ProxyNCAPlusPlus,
    "proxy_anchor": ProxyAnchor,
    "soft_triple": SoftTriple,
    "proxy_gml": ProxyGML,
    "norm_softmax": NormSoftmax,
    "cos_face": CosFace,
    "arc_face": ArcFace,
    "multi_similarity": MultiSimilarity,
    "margin": Margin,
    "nearest_margin": NearestMargin,
    "triplet_semihard": TripletSemihard,
    "triplet": Triplet,
    "contrastive": Contrastive,
    "cosine_contrastive": CosineContrastive,
    "n_pairs": NPairs,
    "lifted_structure": LiftedStructure,
    "ranked_list": RankedList,
    "potential_field": PotentialField,
    "pml": NamedPML,
}
"""The losses that are no wrappers, by name; a new one is a file and a line here."""

Base = str | Mapping[str, Any] | MetricLoss
"""'proxy_anchor', {"name": "proxy_anchor", "settings": {"scale": 16}}, or a loss."""


def class_and_settings(base: Base) -> tuple[type[MetricLoss], dict[str, Any]]:
    """The class of the wrapped loss and the keyword arguments to build it with.

    Raises:
        UnknownNameError: no such loss. ArgumentError: a mapping with other keys than name and settings.
    """
    if isinstance(base, ProxyLoss):
        return type(base), base.settings()
    if isinstance(base, MetricLoss):
        raise ArgumentError(
            f"base is a ready {type(base).__name__}, which has no proxies; give its name instead"
        )
    if isinstance(base, str):
        base = {"name": base}
    if not {"name"} <= set(base) <= {"name", "settings"}:
        raise ArgumentError(f"base has the keys {sorted(base)}; expected name, and settings if there are any")
    return look_up(BASE_LOSSES, base["name"], "loss"), dict(base.get("settings") or {})


def build_base(
    base: Base, num_classes: int, embedding_dim: int, generator: Generator | None = None
) -> MetricLoss:
    """The wrapped loss: a new one, or the ready one.

    Raises:
        ArgumentError: the ready one has other sizes.
    """
    kind, settings = class_and_settings(base)
    if isinstance(base, MetricLoss):
        if (base.num_classes, base.embedding_dim) != (num_classes, embedding_dim):
            raise ArgumentError(
                f"the ready base has {base.num_classes} classes and dimension {base.embedding_dim}; "
                f"expected {num_classes} and {embedding_dim}"
            )
        return base
    return build(kind, num_classes, embedding_dim, settings, generator)


def build(
    kind: type[MetricLoss],
    num_classes: int,
    embedding_dim: int,
    arguments: Mapping[str, Any],
    generator: Generator | None = None,
) -> MetricLoss:
    """A loss of class `kind`, which gets the generator if it starts at random."""
    make: Callable[..., MetricLoss] = kind
    if "generator" in inspect.signature(kind).parameters:
        return make(num_classes, embedding_dim, **arguments, generator=generator)
    return make(num_classes, embedding_dim, **arguments)
