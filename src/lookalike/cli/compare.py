"""lookalike compare: results side by side, with intervals."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lookalike.cli.common import Json, print_json, print_rows

if TYPE_CHECKING:
    from lookalike.evaluation.intervals import Interval

Results = Annotated[list[Path], typer.Argument(help="Run folders or saved results (.json).")]
Metric = Annotated[str, typer.Option(help="Which metric to compare.")]
Seeds = Annotated[bool, typer.Option("--seeds", help="They are runs of one method: mean and interval.")]


def add(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("compare", epilog="Example: lookalike compare runs/a runs/b --metric map_at_r")(compare)


def compare(
    results: Results, metric: Metric = "recall_at_1", seeds: Seeds = False, json: Json = False
) -> None:
    """Compare results: one with its interval, two query by query, or several seeds of one method."""
    from lookalike.errors import ArgumentError
    from lookalike.evaluation.compare import compare_results, interval_of, interval_over_seeds, load_result

    loaded = [load_result(path) for path in results]
    if seeds:
        interval = interval_over_seeds(loaded, metric)
        if json:
            print_json({"metric": metric, **asdict(interval)})
        else:
            print(_told(f"{metric}, mean over {interval.n} seeds", interval))
        return
    if len(loaded) > 2:
        raise ArgumentError(f"{len(loaded)} results; give one, two, or --seeds for runs of one method")
    if len(loaded) == 1:
        interval = interval_of(loaded[0], metric)
        if json:
            print_json({"metric": metric, **asdict(interval)})
        else:
            print(_told(f"{metric}, {interval.n} classes drawn anew", interval))
        return
    found = compare_results(loaded[0], loaded[1], metric)
    if json:
        print_json(asdict(found))
        return
    print_rows(
        ["percent", str(results[0]), str(results[1])],
        [[metric, f"{100 * found.first:.2f}", f"{100 * found.second:.2f}"]],
    )
    print(_told("second minus first", found.difference))
    print(
        f"better on {found.better:,} queries, worse on {found.worse:,}, the same on {found.same:,}; "
        f"p = {found.p_value:.4f} (signs of classes flipped)"
    )


def _told(what: str, interval: "Interval") -> str:
    share = f"{100 * interval.confidence:g} % interval"
    return (
        f"{what}: {100 * interval.mean:.2f} % ({share} {100 * interval.low:.2f} to {100 * interval.high:.2f})"
    )
