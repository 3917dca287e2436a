"""The noun `data`: add data sets under a name, list them, check them, split them."""

import typer

from lookalike.cli.common import Json, print_json, print_rows

app = typer.Typer(
    help="Data sets: add under a name, list, check, split.",
    no_args_is_help=True,
    epilog="Try: lookalike data list",
)


@app.command("list", epilog="Example: lookalike data list")
def list_data(json: Json = False) -> None:
    """Data sets that can be named, and published ones that are recognized by their layout."""
    from lookalike.data.registry import known_datasets

    rows = known_datasets()
    if json:
        print_json(rows)
    else:
        print_rows(["name", "state", "about"], [[r["name"], r["state"], r["about"]] for r in rows])
