"""The folder of cached files, and the size that it may grow to."""

import os
import re
from pathlib import Path

import platformdirs

from lookalike.errors import ArgumentError, FileError

DEFAULT_LIMIT = "50GB"
UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def cache_folder() -> Path:
    """`$LOOKALIKE_CACHE`, or the user's cache folder (on Linux `~/.cache/lookalike`).

    Raises:
        FileError: the user has no home directory.
    """
    chosen = os.environ.get("LOOKALIKE_CACHE")
    try:
        folder = Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("lookalike")
    except RuntimeError:
        folder = Path("~")
    if not chosen and not folder.is_absolute():  # a user without an entry and without HOME
        raise FileError("this user has no home directory; set LOOKALIKE_CACHE to a folder for cached files")
    return folder


def inside_cache(path: Path) -> bool:
    """Whether `path` lies in the cache."""
    try:
        return path.resolve().is_relative_to(cache_folder().resolve())
    except (FileError, OSError):
        return False


def cache_limit() -> int:
    """Bytes that cached activations may take: `$LOOKALIKE_CACHE_LIMIT`, such as 20GB, or 50 GB.

    Raises:
        ArgumentError: the variable is not a size.
    """
    return parse_size(os.environ.get("LOOKALIKE_CACHE_LIMIT") or DEFAULT_LIMIT, "LOOKALIKE_CACHE_LIMIT")


def parse_size(text: str, what: str = "size") -> int:
    """Bytes of a size such as 20GB, 500 MB or 0.

    Raises:
        ArgumentError: not a size.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?B)?\s*", text.upper())
    if found is None:
        raise ArgumentError(f"{what} is '{text}'; expected a size such as 20GB or 500MB")
    return round(float(found[1]) * UNITS[found[2] or "B"])


def format_size(size: float) -> str:
    """Such as 1.5 GB."""
    unit = next((name for name, bytes_ in reversed(UNITS.items()) if size >= bytes_), "B")
    value = size / UNITS[unit]
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
