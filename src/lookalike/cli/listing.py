"""lookalike list: what can be named."""

from typing import Annotated, Any

import typer

from lookalike.cli.common import Json, print_json, print_rows

Kind = Annotated[str, typer.Argument(help="losses, backbones or datasets.")]


def add(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("list", epilog="Example: lookalike list losses")(listing)


def listing(kind: Kind, json: Json = False) -> None:
    """List the losses, backbones or data sets that are known by name."""
    from lookalike.utils.validation import look_up

    rows = look_up({"losses": _losses, "backbones": _backbones, "datasets": _datasets}, kind, "list")()
    if json:
        print_json(rows)
        return
    header = list(rows[0])
    print_rows(header, [[str(row[name]) for name in header] for row in rows])


def _losses() -> list[dict[str, Any]]:
    from lookalike.config.experiment import loss_arguments
    from lookalike.losses import LOSSES

    return [
        {
            "loss": name,
            "class": kind.__name__,
            "settings": ", ".join(f"{key}={value.default!r}" for key, value in loss_arguments(name).items()),
        }
        for name, kind in LOSSES.items()
    ]


def _backbones() -> list[dict[str, Any]]:
    from lookalike.models.backbones import BACKBONES

    return [
        {
            "backbone": name,
            "source": entry.source,
            "px": entry.preprocessing.size,
            "channels": entry.channels,
            "weights": entry.weights,
            "license": entry.license,
            "note": entry.note,
        }
        for name, entry in BACKBONES.items()
    ]


def _datasets() -> list[dict[str, Any]]:
    from lookalike.data.registry import known_datasets

    return known_datasets()
