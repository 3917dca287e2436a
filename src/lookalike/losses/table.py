"""The table of all losses, and what is read from their classes: names and types of their arguments."""

import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from lookalike.errors import ArgumentError, UnknownNameError
from lookalike.losses.base import MetricLoss
from lookalike.losses.build import BASE_LOSSES, class_and_settings
from lookalike.losses.divide_and_conquer import DivideAndConquer
from lookalike.losses.hierarchical import HierarchicalProxyLoss
from lookalike.losses.hierarchical_triplet import HierarchicalTriplet
from lookalike.losses.horde import Horde
from lookalike.losses.proxy_synthesis import ProxySynthesis
from lookalike.losses.sampled import Sampled
from lookalike.utils.validation import look_up, near_miss

LOSSES: dict[str, type[MetricLoss]] = {
    **BASE_LOSSES,
    "hierarchical": HierarchicalProxyLoss,
    "horde": Horde,
    "sampled": Sampled,
    "proxy_synthesis": ProxySynthesis,
    "divide_and_conquer": DivideAndConquer,
    "hierarchical_triplet": HierarchicalTriplet,
}
"""Every loss that an experiment can name: those that are no wrappers, the wrappers, and those that plan batches."""

GIVEN = ("channels", "generator", "seed")
"""Arguments that follow from the network and the experiment's seed."""

KINDS = {float: "a number", int: "a whole number", bool: "true or false", str: "a text", type(None): "null"}


def arguments_of(kind: type[MetricLoss]) -> dict[str, inspect.Parameter]:
    """The arguments of a loss that an experiment can set: its keyword arguments, but for those that training gives."""
    parameters = inspect.signature(kind).parameters.values()
    return {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in GIVEN}


def check_arguments(name: str, arguments: Mapping[str, Any], where: str = "loss") -> None:
    """Refuses arguments that a loss does not have or that have a wrong type. Ranges are checked by its constructor.

    Args:
        where: how messages name the settings that the arguments come from.

    Raises:
        UnknownNameError: no such loss or argument; the message has the near miss.
        ArgumentError: a value of another type, NaN or infinity.
    """
    kind = look_up(LOSSES, name, "loss")
    known = arguments_of(kind)
    for argument, value in arguments.items():
        if argument not in known:
            raise UnknownNameError(
                f"loss '{name}' has no setting '{argument}'{near_miss(argument, known)} "
                f"(it has: {', '.join(sorted(known))})"
            )
        if argument == "parents" and isinstance(value, str):
            continue  # `given`, which training replaces by the coarse levels of the data
        _check_type(f"{where}.{argument}", value, known[argument].annotation)
    if isinstance(arguments.get("base"), str | Mapping):
        try:
            inner, settings = class_and_settings(arguments["base"])
        except (UnknownNameError, ArgumentError) as error:
            raise type(error)(f"{where}.base: {error}") from error
        inner_name = next(key for key, candidate in BASE_LOSSES.items() if candidate is inner)
        check_arguments(inner_name, settings, f"{where}.base.settings")


def _check_type(setting: str, value: Any, annotation: Any) -> None:
    """Refuses a value that is not of the annotated type, without converting any."""
    config = ConfigDict(strict=True, arbitrary_types_allowed=True, allow_inf_nan=False)
    try:
        TypeAdapter(annotation, config=config).validate_python(value)
    except ValidationError as error:
        raise ArgumentError(f"{setting} is {value!r}; expected {describe(annotation)}") from error


def describe(annotation: Any) -> str:
    """The values of a type, in words."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(describe(part) for part in typing.get_args(annotation)))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a mapping of names and values"
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return f"a list ({describe(typing.get_args(annotation)[0])} each)"
    return KINDS.get(annotation, f"a {getattr(annotation, '__name__', annotation)}")
