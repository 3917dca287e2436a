"""What each engine was measured at, for `lookalike list engines`; `python -m benchmarks.search --publish` writes it."""

from pathlib import Path
from typing import Any

from lookalike.utils.io import read_json

FILE = Path(__file__).parent / "published" / "measured.json"
"""Engine -> recall_at_10 and queries_per_second of one query at a time, 100,000 vectors of 512 numbers, and where
the numbers are from."""


def measured(engine: str) -> tuple[str, str]:
    """(recall of the 10 nearest, queries per second) in words; "-" for an engine that was not measured."""
    known: dict[str, Any] = read_json(FILE)
    row = known.get(engine)
    if row is None:
        return "-", "-"
    return f"{100 * row['recall_at_10']:.2f} %", f"{row['queries_per_second']:.0f}"
