"""lookalike metrics: what each metric means, and what other libraries call it."""

from typing import Annotated

import typer

from lookalike.cli.common import Json, print_json, print_rows

Name = Annotated[str | None, typer.Argument(help="A metric, such as map_at_r or recall_at_10; default: all.")]
Explain = Annotated[
    bool, typer.Option("--explain", help="Formula, meaning, and naming in other libraries of each.")
]


def add(app: typer.Typer) -> None:
    """Registers the command."""
    app.command("metrics", epilog="Example: lookalike metrics map_at_r --explain")(metrics)


def metrics(name: Name = None, explain: Explain = False, json: Json = False) -> None:
    """List the metrics, or explain one."""
    from lookalike.evaluation import glossary
    from lookalike.evaluation.metrics import METRICS, find_metric

    chosen = list(METRICS.values()) if name is None else [find_metric(name)]
    if json:
        print_json(
            {"notation": glossary.NOTATION, "metrics": [glossary.describe(metric) for metric in chosen]}
        )
    elif explain or name is not None:
        print(glossary.explain(chosen))
    else:
        print_rows(["metric", "name", "formula"], [[one.key, one.title, one.formula] for one in chosen])
