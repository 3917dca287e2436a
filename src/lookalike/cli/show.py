"""lookalike show: a run's result, or every setting with its default."""

from typing import Annotated

import typer

from lookalike.cli.common import Json, metric_rows, print_json, print_rows

What = Annotated[str, typer.Argument(help="A run directory, or the word settings.")]


def add(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("show", epilog="Example: lookalike show runs/photos")(show)


def show(what: What, json: Json = False) -> None:
    """Show a run's result and how it was chosen, or every setting with its default."""
    if what == "settings":
        _show_settings(json)
        return
    from lookalike.training.run_dir import RunDir

    run = RunDir(what)
    experiment, result = run.experiment(), run.read_json("result.json")
    if json:
        print_json({"experiment": experiment.model_dump(mode="json"), "result": result})
        return
    columns = {
        "validation start": "start",
        "validation": "validation",
        "test start": "test_start",
        "test": "test",
    }
    print_rows(*metric_rows({title: result[key] for title, key in columns.items()}))
    chosen = result["selected"]
    print(f"{result['loss']}, {result['mode']}, on {result['data']['name']}, seed {result['seed']}")
    print(
        f"chosen by {chosen['by']}: {chosen['what']}, epoch {chosen['epoch']} of {chosen['epochs_trained']}"
    )
    print("seconds: " + ", ".join(f"{phase} {value:.0f}" for phase, value in result["seconds"].items()))


def _show_settings(json: bool) -> None:
    from lookalike.config.experiment import Experiment, setting_facts

    if json:
        print_json(Experiment.model_json_schema())
        return
    rows: list[list[str]] = [[name, str(default), text] for name, default, text in setting_facts()]
    width, wide = max(len(row[0]) for row in rows), max(len(row[1]) for row in rows)
    for name, default, text in rows:
        print(f"{name.ljust(width)}  {default.ljust(wide)}  {text}".rstrip())
