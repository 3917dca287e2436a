"""lookalike list: everything that can be named in a command or a setting."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from lookalike.cli.common import Json, print_json, print_rows

Rows = list[dict[str, Any]]
"""One dict per line of a table; all have the same keys."""


def _losses() -> Rows:
    from lookalike.losses import LOSSES, arguments_of

    return [
        {
            "loss": name,
            "class": kind.__name__,
            "settings": ", ".join(f"{key}={value.default!r}" for key, value in arguments_of(kind).items()),
        }
        for name, kind in LOSSES.items()
    ]


def _backbones() -> Rows:
    from lookalike.models.recommended import recommended

    return recommended()


def _datasets() -> Rows:
    from lookalike.data.registry import known_datasets

    return known_datasets()


def _metrics() -> Rows:
    from lookalike.evaluation.metrics import METRICS

    return [{"metric": name, "formula": entry.formula} for name, entry in METRICS.items()]


def _settings() -> Rows:
    from lookalike.config.experiment import setting_facts

    return [{"setting": name, "default": default, "meaning": text} for name, default, text in setting_facts()]


def _studies() -> Rows:
    from lookalike.studies import STUDIES

    return [{"study": study.id, "rows": len(study.rows), "title": study.title} for study in STUDIES.values()]


def _engines() -> Rows:
    from lookalike.search.engines import ENGINES

    return [
        {"engine": name, "about": entry.about, "extra": entry.extra or "-", "uri": entry.uri or "-"}
        for name, entry in ENGINES.items()
    ]


KINDS: dict[str, Callable[[], Rows]] = {
    "losses": _losses,
    "backbones": _backbones,
    "datasets": _datasets,
    "engines": _engines,
    "metrics": _metrics,
    "settings": _settings,
    "studies": _studies,
}

Kind = Annotated[str, typer.Argument(help=f"{', '.join(KINDS)}.")]


def add(app: typer.Typer) -> None:
    """Registers the command."""
    app.command("list", epilog="Example: lookalike list losses")(listing)


def listing(kind: Kind, json: Json = False) -> None:
    """List everything of one kind that has a name, with what it is."""
    from lookalike.utils.validation import look_up

    rows = look_up(KINDS, kind, "list")()
    if json:
        print_json(rows)
    else:
        print_rows([*rows[0]], [[str(value) for value in row.values()] for row in rows])
