"""lookalike study: the papers' tables and figures."""

from typing import Annotated

import typer

from lookalike.cli.common import Json, print_json

app = typer.Typer(
    help="The tables and figures of the papers: list, show, run, and the table of what has been run.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog="Example: lookalike study list",
)

Name = Annotated[str, typer.Argument(help="A study, paper/name, as `lookalike study list` prints it.")]


@app.command("list", epilog="Example: lookalike study list")
def list_studies(json: Json = False) -> None:
    """List every study, one paper/name a line."""
    from lookalike.studies import STUDIES

    if json:
        print_json(
            [{"study": study.id, "title": study.title, "rows": len(study.rows)} for study in STUDIES.values()]
        )
        return
    for name in STUDIES:
        print(name)


@app.command("show", epilog="Example: lookalike study show proxynca_pp/table7")
def show(study: Name, json: Json = False) -> None:
    """Show a study: its rows, what differs in each, and the published numbers with their sources."""
    from lookalike.studies import find_study
    from lookalike.studies.describe import describe, described_rows

    found = find_study(study)
    if json:
        print_json(describe(found))
        return
    print(f"{found.id}: {found.title}\nsource: {found.source}")
    if found.note:
        print(f"note: {found.note}")
    print()
    _print_left(*described_rows(found))


def _print_left(header: list[str], rows: list[list[str]]) -> None:
    """Columns aligned to the left, since the last one is text."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    for row in [header, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
