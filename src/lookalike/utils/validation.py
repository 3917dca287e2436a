"""Argument checks with uniform error messages.

Public functions check their input once; the code behind them trusts it.
"""

import difflib
import importlib
import math
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.errors import ArgumentError, MissingExtraError, NotFiniteError, UnknownNameError

T = TypeVar("T")


def near_miss(name: str, known: Iterable[str]) -> str:
    """The hint "; did you mean 'x'?" with the known name closest to `name`, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
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


def as_labels(labels: NDArray[Any]) -> Tensor:
    """NumPy labels of any integer dtype and byte order as a tensor (int64, or uint64 if they are)."""
    if labels.dtype.kind not in "iu":
        raise ArgumentError(f"labels have dtype {labels.dtype}; expected integers (labels.astype(int))")
    wide = np.uint64 if labels.dtype.kind == "u" and labels.dtype.itemsize == 8 else np.int64
    return torch.from_numpy(labels.astype(wide))


def check_batch(embeddings: Tensor, labels: Tensor, *, num_classes: int, embedding_dim: int) -> None:
    """Refuses a batch that a loss cannot read, naming the first bad sample.

    Args:
        embeddings: floating, shape (B, embedding_dim), B at least 1, finite.
        labels: integer, shape (B,), each in 0..num_classes-1.

    On an accelerator values are not read, which would wait for the device at each step; shapes and dtypes
    are. Labels that come from a `LabeledImages` are in range.

    Raises:
        ArgumentError: what is wrong, at which sample, and the fix.
    """
    if not isinstance(embeddings, Tensor) or not isinstance(labels, Tensor):
        raise ArgumentError(
            f"a loss takes two tensors, got {type(embeddings).__name__} and {type(labels).__name__}; "
            "convert with torch.as_tensor"
        )
    if embeddings.ndim != 2 or embeddings.shape[1] != embedding_dim or embeddings.shape[0] == 0:
        raise ArgumentError(
            f"embeddings have shape {tuple(embeddings.shape)}; expected (B, {embedding_dim}) with B at least 1"
        )
    if not embeddings.is_floating_point():
        raise ArgumentError(f"embeddings have dtype {embeddings.dtype}; expected a floating dtype")
    if labels.ndim != 1 or len(labels) != len(embeddings):
        raise ArgumentError(
            f"labels have shape {tuple(labels.shape)}; expected ({len(embeddings)},), one label per embedding"
        )
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ArgumentError(f"labels have dtype {labels.dtype}; expected integers (labels.long())")
    if labels.device.type == "cpu":
        _check_label_range(labels, num_classes)
    if embeddings.device.type == "cpu":
        _check_finite(embeddings.detach())


def _check_label_range(labels: Tensor, num_classes: int) -> None:
    """Refuses labels outside 0..num_classes-1."""
    signed = labels.long()  # torch cannot compare unsigned integers; uint64 above 2^63 becomes negative
    lowest, highest = signed.aminmax()
    if int(lowest) < 0 or int(highest) >= num_classes:
        first = int(((signed < 0) | (signed >= num_classes)).nonzero()[0])
        raise ArgumentError(
            f"label {labels[first].numpy().item()} is not in 0..{num_classes - 1} ({num_classes} classes); first bad "
            f"sample index {first}; renumber the labels to 0..{num_classes - 1} or raise num_classes"
        )


def _check_finite(embeddings: Tensor) -> None:
    """Refuses NaN and infinity."""
    if math.isfinite(float(embeddings.sum())):
        return
    bad = ~torch.isfinite(embeddings).all(dim=1)  # takes 20 times as long, and a finite sum may overflow
    samples: list[int] = bad.nonzero()[:, 0].tolist()
    if samples:
        raise NotFiniteError(
            f"embeddings are not finite in {len(samples)} of {len(embeddings)} samples; first bad sample "
            f"index {samples[0]}; look at its image or lower the learning rate",
            samples,
        )


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
