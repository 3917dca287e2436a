"""How a loss that wraps another one names it: by name, by name and settings, or as a ready loss."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Generator

from lookalike.checks import look_up
from lookalike.errors import ArgumentError
from lookalike.losses.base import MetricLoss, ProxyLoss

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
        raise ArgumentError(f"base is a {type(base).__name__}; a ready base must have proxies; name this one")
    if isinstance(base, str):
        base = {"name": base}
    if not {"name"} <= set(base) <= {"name", "settings"}:
        raise ArgumentError(f"base has the keys {sorted(base)}; expected name, and settings if there are any")
    from lookalike.losses import LOSSES  # here, because the table lists the wrappers too

    return look_up(LOSSES, base["name"], "loss"), dict(base.get("settings") or {})


def build_base(
    base: Base, num_classes: int, embedding_dim: int, generator: Generator | None = None
) -> MetricLoss:
    """The wrapped loss: a new one, or the ready one itself.

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
    build: Callable[..., MetricLoss] = kind
    return build(num_classes, embedding_dim, **settings, generator=generator)
