"""lookalike metrics: which numbers there are, and what each means."""

from dataclasses import asdict
from typing import Annotated

import typer

from lookalike.cli.common import Json, print_json

Name = Annotated[str | None, typer.Argument(help="A metric, such as map_at_r; all by default.")]
Explain = Annotated[bool, typer.Option("--explain", help="Formulas, and what other libraries call so.")]


def add(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("metrics", epilog="Example: lookalike metrics map_at_r --explain")(metrics)


def metrics(name: Name = None, explain: Explain = False, json: Json = False) -> None:
    """List the metrics, or say exactly what each one means."""
    from lookalike.evaluation.glossary import METRICS, NOTATION
    from lookalike.evaluation.glossary import explain as explanation_of

    chosen = list(METRICS.values()) if name is None else [explanation_of(name)]
    if json:
        print_json({"notation": NOTATION, "metrics": [asdict(one) for one in chosen]})
        return
    if not explain and name is None:
        for one in chosen:
            print(f"{one.key:<16} {one.formula}")
        return
    print(NOTATION)
    for one in chosen:
        print(f"\n{one.key} = {one.formula}\n  {one.meaning}\n  Elsewhere: {one.elsewhere}")
