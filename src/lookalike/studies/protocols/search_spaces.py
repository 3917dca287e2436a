"""Which settings of an experiment a search varies, and in which ranges.

The ranges of a loss's arguments stand with its class (`search_space`). Here they are joined with the learning
rate of the proxies, and, for a hierarchical loss, with those of its base on every level.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lookalike.config.experiment import Experiment
from lookalike.errors import ArgumentError
from lookalike.losses import LOSSES
from lookalike.losses.base import ProxyLoss
from lookalike.losses.search_range import SearchRange
from lookalike.utils.validation import look_up

RATE = SearchRange("proxy_lr", 1e-6, 1.0, log=True)
OWN_PARAMETERS = ("margin", "hierarchical")
"""Losses besides those with proxies that have parameters of their own, so a learning rate for them."""


@dataclass(frozen=True)
class Searched:
    """One searched setting: a dotted setting such as `loss.level_settings.1.scale`, and its range."""

    setting: str
    range: SearchRange
    integer: bool = False

    def value(self, number: float) -> float | int:
        """The setting for a searched number."""
        return round(self.range.argument(number)) if self.integer else self.range.argument(number)


def search_space(experiment: Experiment, num_classes: int) -> tuple[Searched, ...]:
    """What is searched for the experiment's loss.

    Args:
        num_classes: classes in training, which bound the groups of a hierarchical loss.

    Raises:
        ArgumentError: nobody said where to search.
    """
    name = experiment.loss.name
    kind = look_up(LOSSES, name, "loss")
    if name == "hierarchical":
        ranges = _of_hierarchy(experiment.loss.arguments, num_classes)
    else:
        ranges = [Searched(f"loss.{r.name}", r) for r in kind.search_space]
    if not ranges:
        known = ", ".join(sorted(name for name, loss in LOSSES.items() if loss.search_space))
        raise ArgumentError(
            f"the loss '{name}' has no search space (these have: {known}, hierarchical); use another protocol, or "
            "give its class a search_space"
        )
    if issubclass(kind, ProxyLoss) or name in OWN_PARAMETERS:
        ranges.insert(0, Searched("train.proxy_lr", RATE))
    return tuple(ranges)


def _of_hierarchy(arguments: Mapping[str, Any], num_classes: int) -> list[Searched]:
    """HPL's list: groups, iterations between clusterings, and the base's arguments on each level."""
    base = arguments.get("base", "proxy_anchor")
    base = base if isinstance(base, str) else base["name"]
    ranges: list[Searched] = []
    levels = 2
    if arguments.get("parents") is None:
        groups = SearchRange("coarse", 2, max(3, num_classes // 2), log=True, source="ours")
        every = SearchRange("update_every", 1, 100, log=True, source="ours")
        ranges += [
            Searched("loss.coarse.0", groups, integer=True),
            Searched("loss.update_every", every, integer=True),
        ]
    ranges += [
        Searched(f"loss.level_settings.{level}.{r.name}", r)
        for level in range(levels)
        for r in look_up(LOSSES, base, "loss").search_space
    ]
    return ranges


def drawn(trial: Any, space: tuple[Searched, ...]) -> dict[str, float]:
    """Values of all settings of a space, as an Optuna trial suggests them."""
    return {
        s.setting: s.value(trial.suggest_float(s.setting, s.range.low, s.range.high, log=s.range.log))
        for s in space
    }


def with_values(experiment: Experiment, values: Mapping[str, float]) -> Experiment:
    """The experiment with the searched values."""
    tree = experiment.model_dump(exclude_unset=True)
    for setting, value in values.items():
        _put(tree, setting.split("."), value)
    return Experiment.model_validate(tree)


def _put(node: Any, path: list[str], value: float) -> None:
    """Sets a value in nested dicts and lists, which are made or lengthened where need be."""
    key: Any = int(path[0]) if isinstance(node, list) else path[0]
    if isinstance(node, list):
        node += [{} for _ in range(key + 1 - len(node))]
    if len(path) == 1:
        node[key] = value
        return
    if isinstance(node, dict) and node.get(key) is None:
        node[key] = [] if path[1].isdigit() else {}
    elif isinstance(node, dict) and isinstance(node[key], tuple):
        node[key] = list(node[key])
    _put(node[key], path[1:], value)
