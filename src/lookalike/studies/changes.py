"""Changes to an experiment: experiments of which only the settings that are set count."""

from collections.abc import Mapping
from typing import Any

from lookalike.config.experiment import Experiment


def combined(base: Experiment, *changes: Experiment) -> Experiment:
    """`base` with every setting that is set in a change; a loss of another name replaces the whole loss."""
    tree = base.model_dump(exclude_unset=True)
    for change in changes:
        _merge(tree, change.model_dump(exclude_unset=True))
    return Experiment.model_validate(tree)


def _merge(tree: dict[str, Any], change: Mapping[str, Any]) -> None:
    for key, value in change.items():
        below = tree.get(key)
        other_loss = key == "loss" and "name" in value and value["name"] != (below or {}).get("name")
        if isinstance(value, dict) and isinstance(below, dict) and not other_loss:
            _merge(below, value)
        else:
            tree[key] = value
