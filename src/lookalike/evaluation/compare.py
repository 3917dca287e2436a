"""Comparison of saved results: one with its interval, two on the same queries, several seeds of one method."""

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
from lookalike.evaluation.metrics import find_metric
from lookalike.evaluation.result import ARRAYS, result_files
from lookalike.utils.hashing import checksum
from lookalike.utils.io import ARRAY_ERRORS, read_checked
from lookalike.utils.what_is import found_instead

RUN_FILE = "test_queries"


@dataclass(frozen=True)
class SavedResult:
    """Files of `RetrievalResult.save`: `summary` (the JSON), and arrays with one entry per query."""

    path: Path
    summary: dict[str, Any]
    labels: np.ndarray
    rows: np.ndarray
    per_query: dict[str, np.ndarray]

    def metric(self, name: str) -> np.ndarray:
        """Values of one metric, one per query.

        Raises:
            UnknownNameError: no such metric.
            ArgumentError: the result was evaluated without it, as with another K.
        """
        find_metric(name)
        if name not in self.per_query:
            raise ArgumentError(
                f"{self.path} has no {name} (has: {', '.join(self.per_query)}); evaluate with that K, or compare "
                "a metric of queries"
            )
        return self.per_query[name]


def load_result(path: str | Path) -> SavedResult:
    """Reads a saved result: its .json (or .npz) file, or a run directory.

    Raises:
        FileError: a file is absent or not what `RetrievalResult.save` writes.
    """
    path = Path(path)
    summary_file, array_file = result_files(path / RUN_FILE if path.is_dir() else path)
    for file in (summary_file, array_file):
        if not file.is_file():
            raise FileError(
                f"no result in '{path}' ({file.name} is absent){found_instead(path)}; expected a run directory of a "
                "finished run, or a file of `lookalike evaluate --save`"
            )
    try:
        summary = read_checked(summary_file)
        written = summary.pop(ARRAYS, None)
        if written not in (None, checksum(array_file)):
            raise FileError("the arrays were written with another; evaluate once more")
        with array_file.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            held = {name: arrays[name] for name in arrays.files}
        return SavedResult(path, summary, held.pop("labels"), held.pop("rows"), held)
    except ARRAY_ERRORS as error:
        raise FileError(f"{summary_file} and {array_file.name} are not a saved result: {error}") from error


def compare_results(first: SavedResult, second: SavedResult, metric: str = "recall_at_1") -> Difference:
    """Second minus first on the same queries.

    Raises:
        ArgumentError: the two have different queries, or were evaluated with different settings.
    """
    if not (np.array_equal(first.rows, second.rows) and np.array_equal(first.labels, second.labels)):
        raise ArgumentError(
            f"{first.path} and {second.path} have different queries ({len(first.rows):,} and "
            f"{len(second.rows):,}); evaluate both on the same data and split"
        )
    for key in ("no_match", "ignore_labels"):
        ours, theirs = (r.summary.get("settings", {}).get(key) for r in (first, second))
        if ours != theirs:
            raise ArgumentError(
                f"{first.path} was evaluated with {key}={ours}, {second.path} with {key}={theirs}; "
                "evaluate both with the same"
            )
    return paired_difference(metric, first.metric(metric), second.metric(metric), first.labels)


def interval_of(result: SavedResult, metric: str = "recall_at_1") -> Interval:
    """Mean of a result with its bootstrap interval over classes."""
    return bootstrap_over_classes(result.metric(metric), result.labels)


def interval_over_seeds(results: list[SavedResult], metric: str = "recall_at_1") -> Interval:
    """Mean and Student's interval of runs of one method with different seeds."""
    columns = [result.metric(metric) for result in results]
    for result, column in zip(results, columns, strict=True):
        if np.isnan(column).all():
            raise ArgumentError(f"no query of {result.path} has a match, so it has no {metric}")
    return student_interval([float(np.nanmean(column)) for column in columns])
