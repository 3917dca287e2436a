"""lookalike compare: saved results with confidence intervals."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lookalike.cli.common import Json, print_json, print_rows

if TYPE_CHECKING:
    from lookalike.evaluation import Difference, Interval

Results = Annotated[
    list[Path], typer.Argument(help="Run directories, or results of `lookalike evaluate --save` (.json).")
]
Metric = Annotated[str, typer.Option(help="Metric to compare; see: lookalike list metrics")]
Seeds = Annotated[
    bool, typer.Option("--seeds", help="Treat them as runs of one method with different seeds.")
]


def compare(
    results: Results, metric: Metric = "recall_at_1", seeds: Seeds = False, json: Json = False
) -> None:
    """Compare saved results.

    One result: its mean with a 95 % confidence interval, by a bootstrap over classes. Two results: the
    difference query by query, its interval, and a permutation test. Several with --seeds: mean and Student's
    interval over runs.
    """
    from lookalike.errors import ArgumentError
    from lookalike.evaluation import (
        compare_results,
        find_metric,
        interval_of,
        interval_over_seeds,
        load_result,
    )

    find_metric(metric)
    loaded = [load_result(path) for path in results]
    if len(loaded) > 2 and not seeds:
        raise ArgumentError(f"{len(loaded)} results; give one or two, or --seeds for runs of one method")
    if len(loaded) == 2 and not seeds:
        found = compare_results(loaded[0], loaded[1], metric)
        if json:
            print_json({**asdict(found), "method": "bootstrap and sign flips of classes"})
        else:
            _print_difference(found, str(results[0]), str(results[1]))
        return
    interval = interval_over_seeds(loaded, metric) if seeds else interval_of(loaded[0], metric)
    if json:
        method = "Student's t over seeds" if seeds else "bootstrap over classes"
        print_json({"metric": metric, **asdict(interval), "method": method})
    elif seeds:
        print(f"{metric}, mean over {interval.n} seeds: {_describe(interval)}")
    else:
        print(f"{metric}: {_describe(interval)}, by a bootstrap over {interval.n} classes")


def _print_difference(found: "Difference", first: str, second: str) -> None:
    from lookalike.evaluation import format_value

    metric, values = found.metric, (found.first, found.second)
    print_rows(["percent", first, second], [[metric, *(format_value(metric, value) for value in values)]])
    print(f"difference (second minus first): {_describe(found.difference)}")
    print(
        f"second better on {found.better:,} queries, worse on {found.worse:,}, equal on {found.same:,}; "
        f"p = {found.p_value:.4f} (permutation test, signs of {found.difference.n} classes flipped)"
    )
    print(_verdict(found))


def _verdict(found: "Difference") -> str:
    """What the interval says about the difference, in words."""
    low, high = found.difference.low, found.difference.high
    if low > 0 or high < 0:
        return (
            f"The {'second' if low > 0 else 'first'} is better on these queries; 0 lies outside the interval."
        )
    return "These queries do not separate the two: the interval contains 0, or there is only one class."


def _describe(interval: "Interval") -> str:
    if interval.low != interval.low:
        return f"{100 * interval.mean:.2f} % (one value gives no confidence interval)"
    return (
        f"{100 * interval.mean:.2f} % ({100 * interval.confidence:g} % confidence interval "
        f"{100 * interval.low:.2f} to {100 * interval.high:.2f})"
    )
