"""lookalike study: the papers' tables and figures."""

import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from lookalike.cli.common import Device, Json, Quiet, Set, make_progress, print_json, print_rows

app = typer.Typer(
    help="The tables and figures of the papers: show, run, and the table of what has been run.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog="Their names: lookalike list studies",
)

Name = Annotated[str, typer.Argument(help="A study, paper/name, as `lookalike list studies` prints it.")]
WIDTH = 100
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder of all studies' runs and tables.")]


@app.command("show", epilog="Example: lookalike study show proxynca_pp/table7")
def show(study: Name, json: Json = False) -> None:
    """Show a study: how each system is trained, what differs in each row, and the published numbers."""
    from lookalike.studies import find_study
    from lookalike.studies.show import row_cells, study_text, study_tree

    found = find_study(study)
    if json:
        print_json(study_tree(found))
        return
    for line in study_text(found).splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        print(textwrap.fill(line, WIDTH, subsequent_indent=indent, break_on_hyphens=False) if line else "")
    print()
    print_rows(*row_cells(found))


@app.command("run", epilog="Example: lookalike study run proxynca_pp/table7 --smoke --seeds 1 --out studies")
def run(
    study: Name,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Folder with the benchmarks, as folders or archives of any name."),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="One data set for all rows instead: a name in the --data folder, or what `train` takes."
        ),
    ] = None,
    rows: Annotated[
        list[str] | None, typer.Option("--rows", help="Rows to run, by comma or repeated; all if not given.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Runs per row. Default 5; 10 with protocol folds; 1 with --smoke."),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Start no run after this time, such as 90s, 10m or 2h.")
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(help="held_out, papers, two_stage or folds, instead of each row's own."),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(help="frozen, partial or finetune, with this project's default learning rates."),
    ] = None,
    backbone: Annotated[str | None, typer.Option(help="Another network, with its usual weights.")] = None,
    settings: Set = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Settings that protocol folds tries, instead of the row's own.")
    ] = None,
    sampler: Annotated[
        str, typer.Option(help="How protocol folds proposes settings: gp (Bayesian optimization) or tpe.")
    ] = "gp",
    smoke: Annotated[bool, typer.Option("--smoke", help="Smoke test: toy size on built-in images.")] = False,
    keep_models: Annotated[
        bool, typer.Option("--keep-models", help="Keep the weights of every run.")
    ] = False,
    out: Out = Path("studies"),
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a study, resuming where an earlier run stopped, and print its table.

    Several processes can work on the same --out folder. Where data, network, settings or protocol are not the
    paper's, the row is not comparable, and published numbers are set apart.
    """
    progress = make_progress(quiet)
    progress.say("loading ...")
    from lookalike.studies import find_study
    from lookalike.studies.adapt import Adaptation
    from lookalike.studies.datasets import Images
    from lookalike.studies.plan import Options
    from lookalike.studies.protocols.hyperparameter_search import SAMPLERS
    from lookalike.studies.render import write_tables
    from lookalike.studies.run import run_study
    from lookalike.utils.validation import check_choice

    found = find_study(study)
    if mode is not None:
        check_choice("--mode", mode, ("frozen", "partial", "finetune"))
    check_choice("--sampler", sampler, SAMPLERS)
    options = Options(
        out=out,
        images=Images(data, dataset, smoke=smoke),
        adaptation=Adaptation(backbone, mode, tuple(settings or ()), smoke),
        rows=tuple(name for given in rows or () for name in given.split(",")),
        seeds=1 if smoke and seeds is None else seeds,
        protocol=protocol,
        trials=2 if smoke and trials is None else trials,
        sampler=sampler,
        budget_seconds=None if budget is None else _seconds(budget),
        keep_models=keep_models,
        device=device,
        progress=progress,
    )
    done = run_study(found, options)
    table = next((one for one in write_tables(found, out) if one.conditions == done.conditions), None)
    for why in dict.fromkeys(done.skipped.values()):
        names = [name for name, reason in done.skipped.items() if reason == why]
        progress.warn(f"not run: {', '.join(names)}: {why}")
    for label, why in done.failed.items():
        progress.warn(f"failed: {label}: {why}")
    if done.elsewhere:
        progress.say(f"in progress in another process: {', '.join(done.elsewhere)}")
    if done.out_of_time:
        progress.say(f"the budget of {budget} is used up; the same command continues")
    if table is not None:
        _print_table(table, json)
        progress.say(f"written: {done.folder}/table.html, .md, .json, .csv, .tex")
    if done.failed or (done.skipped and not (done.ran or done.known or done.elsewhere)):
        raise typer.Exit(1)


@app.command("table", epilog="Example: lookalike study table proxynca_pp/table7 --out studies")
def table(study: Name, out: Out = Path("studies"), json: Json = False) -> None:
    """Print the tables of a study from what has been run, one for each set of conditions."""
    from lookalike.errors import FileError
    from lookalike.studies import find_study
    from lookalike.studies.render import as_tree, write_tables

    found = find_study(study)
    tables = write_tables(found, out)
    if not tables:
        raise FileError(
            f"nothing of {study} has been run into '{out}'; run it with: lookalike study run {study}"
        )
    if json:
        print_json([as_tree(one) for one in tables])
        return
    for one in tables:
        _print_table(one, False)


def _print_table(one: Any, json: bool) -> None:
    from lookalike.studies.render import as_tree, to_markdown

    if json:
        print_json(as_tree(one))
    else:
        print(to_markdown(one))


def _seconds(budget: str) -> float:
    """Seconds in `90s`, `10m` or `2h`."""
    from lookalike.errors import ArgumentError

    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = budget[:-1], budget[-1:]
    if unit not in units or not number.replace(".", "", 1).isdigit():
        raise ArgumentError(f"--budget is '{budget}'; expected a number and s, m or h, such as 10m")
    return float(number) * units[unit]
