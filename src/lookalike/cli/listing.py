"""lookalike list: everything that can be named in a command or a setting."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from lookalike.cli.common import Json, print_json, print_rows

Facts = dict[str, Any]
"""What is known of one entry; the first key is its name. All entries of a kind have the same keys."""


def _losses() -> list[Facts]:
    from lookalike.losses import LOSSES, arguments_of

    return [
        {
            "loss": name,
            "class": kind.__name__,
            "settings": ", ".join(f"{key}={value.default!r}" for key, value in arguments_of(kind).items()),
            "source": kind.paper,
            "about": inspect.getdoc(kind) or "",
        }
        for name, kind in LOSSES.items()
    ]


def _backbones() -> list[Facts]:
    from lookalike.models.recommended import recommended

    return recommended()


def _datasets() -> list[Facts]:
    from lookalike.data.registry import known_datasets

    return known_datasets()


def _metrics() -> list[Facts]:
    from lookalike.evaluation.metrics import METRICS, NOTATION

    return [
        {
            "metric": key,
            "title": metric.title,
            "formula": metric.formula,
            "meaning": metric.meaning,
            "elsewhere": metric.elsewhere,
            "higher is better": metric.higher_is_better,
            "notation": NOTATION,
        }
        for key, metric in METRICS.items()
    ]


def _metric_key(name: str) -> str:
    """`recall_at_10` is an entry of `recall_at_k`."""
    from lookalike.evaluation.metrics import find_metric

    return find_metric(name).key


def _settings() -> list[Facts]:
    from lookalike.config.experiment import Experiment
    from lookalike.config.setting_facts import setting_facts

    facts = setting_facts(Experiment)
    return [{"setting": name, "default": default, "meaning": text} for name, default, text in facts]


def _studies() -> list[Facts]:
    from lookalike.studies import STUDIES

    return [{"study": study.id, "rows": len(study.rows), "title": study.title} for study in STUDIES.values()]


def _engines() -> list[Facts]:
    from lookalike.search.engines import ENGINES
    from lookalike.search.engines.measured import measured

    return [
        {
            "engine": name,
            "about": entry.about,
            "recall of 10, of 100,000": measured(name)[0],
            "queries per second": measured(name)[1],
            "extra": entry.extra or "-",
            "uri": entry.uri or "-",
        }
        for name, entry in ENGINES.items()
    ]


@dataclass(frozen=True)
class Kind:
    """One kind of entries.

    Attributes:
        facts: reads them.
        columns: the first so many facts are the columns of the table; all of them when None.
        key: the name that an entry is listed under, of a name that a person gives.
    """

    facts: Callable[[], list[Facts]]
    columns: int | None = None
    key: Callable[[str], str] = str


KINDS = {
    "losses": Kind(_losses, columns=3),
    "backbones": Kind(_backbones),
    "datasets": Kind(_datasets),
    "engines": Kind(_engines),
    "metrics": Kind(_metrics, columns=3, key=_metric_key),
    "settings": Kind(_settings),
    "studies": Kind(_studies),
}

KindArgument = Annotated[str, typer.Argument(help=f"{', '.join(KINDS)}.", metavar="KIND")]
Name = Annotated[str | None, typer.Argument(help="One entry, to see all that is known of it.")]


def list_entries(kind: KindArgument, name: Name = None, json: Json = False) -> None:
    """List everything of one kind that has a name, or all facts about one entry."""
    from lookalike.utils.validation import look_up

    chosen = look_up(KINDS, kind, "list")
    entries = chosen.facts()
    if name is not None:
        by_name = {str(next(iter(facts.values()))): facts for facts in entries}
        entries = [look_up(by_name, chosen.key(name), kind)]
    if json:
        print_json(entries)
    elif name is not None:
        for fact, value in entries[0].items():
            print(f"{fact}: {value}")
    else:
        header = [*entries[0]][: chosen.columns]
        print_rows(header, [[str(facts[key]) for key in header] for facts in entries])
