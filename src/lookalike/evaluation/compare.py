"""Results on disk, set side by side: one with its interval, two on the same queries, several seeds."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.errors import ArgumentError, FileError
from lookalike.evaluation.intervals import (
    Difference,
    Interval,
    bootstrap_over_classes,
    paired_difference,
    student_interval,
)
from lookalike.utils.validation import look_up

RUN_FILE = "test_queries"


@dataclass(frozen=True)
class SavedResult:
    """What `RetrievalResult.save` wrote: `summary` (the JSON), and arrays of one entry a query."""

    path: Path
    summary: dict[str, Any]
    labels: np.ndarray
    rows: np.ndarray
    per_query: dict[str, np.ndarray]

    def metric(self, name: str) -> np.ndarray:
        """Values of one metric, one a query.

        Raises:
            UnknownNameError: the file has no such metric.
        """
        return look_up(self.per_query, name, "metric")


def load_result(path: str | Path) -> SavedResult:
    """Reads a saved result: its .json (or .npz) file, or a run directory.

    Raises:
        FileError: a file is absent or not what `RetrievalResult.save` writes.
    """
    path = Path(path)
    base = path / RUN_FILE if path.is_dir() else path.with_suffix("")
    summary_file, array_file = base.with_suffix(".json"), base.with_suffix(".npz")
    for file in (summary_file, array_file):
        if not file.is_file():
            raise FileError(
                f"no file {file}; give a run directory, or a result written by RetrievalResult.save"
            )
    try:
        summary = json.loads(summary_file.read_text(encoding="utf-8"))
        with np.load(array_file, allow_pickle=False) as arrays:
            held = {name: arrays[name] for name in arrays.files}
        return SavedResult(path, summary, held.pop("labels"), held.pop("rows"), held)
    except (ValueError, KeyError) as error:
        raise FileError(f"{base}.json and .npz are not a saved result: {error}") from error


def compare_results(
    first: SavedResult,
    second: SavedResult,
    metric: str = "recall_at_1",
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> Difference:
    """Second minus first on the same queries.

    Raises:
        ArgumentError: the two were not asked the same queries, or scored in different ways.
    """
    if not (np.array_equal(first.rows, second.rows) and np.array_equal(first.labels, second.labels)):
        raise ArgumentError(
            f"{first.path} and {second.path} did not ask the same queries ({len(first.rows):,} and "
            f"{len(second.rows):,}); evaluate both on the same data and split"
        )
    for key in ("ties", "lone"):
        ours, theirs = (r.summary.get("settings", {}).get(key) for r in (first, second))
        if ours != theirs:
            raise ArgumentError(
                f"{first.path} was scored with {key}={ours}, {second.path} with {key}={theirs}; "
                "evaluate both in the same way"
            )
    return paired_difference(
        metric,
        first.metric(metric),
        second.metric(metric),
        first.labels,
        resamples=resamples,
        seed=seed,
    )


def interval_of(result: SavedResult, metric: str = "recall_at_1", *, seed: int = 0) -> Interval:
    """A result's mean with its bootstrap interval over classes."""
    return bootstrap_over_classes(result.metric(metric), result.labels, seed=seed)


def interval_over_seeds(results: list[SavedResult], metric: str = "recall_at_1") -> Interval:
    """Mean and Student interval of several runs of one method."""
    return student_interval([float(np.nanmean(result.metric(metric))) for result in results])
