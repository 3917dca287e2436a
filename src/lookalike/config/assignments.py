"""Reads `section.name=value` assignments, as `--set` takes them, into a tree of settings."""

import re
from collections.abc import Sequence
from typing import Any

import yaml

from lookalike.errors import ArgumentError, UnknownNameError
from lookalike.utils.validation import near_miss

EXPONENT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")


def read_value(text: str, setting: str) -> Any:
    """The value of a setting, written as YAML.

    Raises:
        ArgumentError: not YAML.
    """
    try:
        return as_numbers(yaml.safe_load(text))
    except (yaml.YAMLError, RecursionError) as error:
        raise ArgumentError(
            f"{setting}: '{text}' is not a YAML value: {' '.join(str(error).split())}"
        ) from error


def as_numbers(value: Any) -> Any:
    """The same value, with 1e-1, which YAML 1.1 takes for a word, as a number."""
    if isinstance(value, str):
        return float(value) if EXPONENT.fullmatch(value) else value
    if isinstance(value, dict):
        return {key: as_numbers(item) for key, item in value.items()}
    return [as_numbers(item) for item in value] if isinstance(value, list) else value


def assign(
    known: dict[str, Any], chosen: dict[str, Any], setting: str, value: Any, names: Sequence[str]
) -> None:
    """Sets `setting` in both trees: `known` has every setting, `chosen` only those that somebody set.

    Args:
        names: of all settings, for the message.

    Raises:
        UnknownNameError: no such setting.
    """
    *sections, name = setting.split(".")
    if sections == ["loss"] and name == "name" and value != known["loss"]["name"]:
        known["loss"], chosen["loss"] = {"name": value}, {"name": value}  # the other loss's arguments go
        return
    node, target = known, chosen
    for section in sections:
        if not isinstance(node.get(section), dict):
            raise UnknownNameError(f"unknown setting '{setting}'{hint(setting, names)}")
        node, target = node[section], target.setdefault(section, {})
    if name not in node and sections != ["loss"]:
        raise UnknownNameError(f"unknown setting '{setting}'{hint(setting, names)}")
    node[name] = target[name] = value


def hint(setting: str, names: Sequence[str]) -> str:
    """The setting that a mistyped one is nearest to, or all of them."""
    return near_miss(setting, names) or f" (settings: {', '.join(names)})"
