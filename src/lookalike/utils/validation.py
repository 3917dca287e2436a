"""Argument checks with uniform error messages.

Public functions check their input once; the code behind them trusts it.
"""

import difflib
import importlib
import math
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from types import ModuleType
from typing import TypeVar

from lookalike.errors import ArgumentError, MissingExtraError, UnknownNameError

T = TypeVar("T")


def near_miss(name: str, known: Iterable[str], *, alike: float = 0.51) -> str:
    """The hint "; did you mean 'x'?" with the known name closest to `name`, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=alike)
    return f"; did you mean '{close[0]}'?" if close else ""


def look_up(table: Mapping[str, T], name: str, kind: str) -> T:
    """The entry `name` of `table`.

    Raises:
        UnknownNameError: no such entry; the message lists the near miss and every known name.
    """
    if name in table:
        return table[name]
    raise UnknownNameError(
        f"unknown {kind} '{name}'{near_miss(name, table)} (known: {', '.join(sorted(table))})"
    )


def check_choice(what: str, value: str, choices: Iterable[str]) -> None:
    """Refuses a value outside `choices`."""
    known = list(choices)
    if value not in known:
        raise ArgumentError(f"{what} is '{value}'{near_miss(value, known)} (one of: {', '.join(known)})")


def check_at_least(what: str, value: float, least: float) -> None:
    """Refuses a number below `least` (and NaN)."""
    if not value >= least:
        raise ArgumentError(f"{what} is {value}; it must be at least {least}")


def check_finite(what: str, value: float) -> None:
    """Refuses NaN and infinity."""
    if not math.isfinite(value):
        raise ArgumentError(f"{what} is {value}; it must be a finite number")


def check_positive(what: str, value: float) -> None:
    """Refuses a number that is not above zero (and NaN)."""
    if not value > 0:
        raise ArgumentError(f"{what} is {value}; it must be above 0")


def check_between(what: str, value: float, low: float, high: float) -> None:
    """Refuses a number outside the closed range low..high (and NaN)."""
    if not low <= value <= high:
        raise ArgumentError(f"{what} is {value}; it must lie in {low} to {high}")


def is_installed(package: str) -> bool:
    """Whether a package can be imported; the folder that an uninstalled one may have left behind cannot."""
    spec = find_spec(package)
    return spec is not None and spec.origin is not None


def optional_import(module: str, extra: str) -> ModuleType:
    """The module of an optional package.

    Raises:
        MissingExtraError: it is not installed, or a package that it needs is not; the message is the command
            that installs them.
    """
    package = module.split(".")[0]
    if not is_installed(package):
        raise MissingExtraError(f"this needs the package '{package}': pip install 'lookalike[{extra}]'")
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or package).split(".")[0]
        raise MissingExtraError(
            f"the package '{package}' is installed, but cannot be imported without '{missing}': "
            f"pip install {missing}, or pip install --force-reinstall 'lookalike[{extra}]'"
        ) from error
