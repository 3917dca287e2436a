"""The numbers that the papers print, read from `published/*.toml`: every table and data figure, digits as printed.

A table has columns such as `recall_at_1`, or `cub200:recall_at_1` where one printed row holds the numbers of
several experiments; `cub200` is then the group of the column. "-" is a blank.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from lookalike.utils.validation import look_up

SOURCES = {
    "S": "the paper, its supplement or its author response",
    "P": "the authors' poster and slides",
    "C": "the authors' released code or its README",
    "2": "restatements of the paper by others",
}
"""What the tags of published numbers mean."""

BLANK = "-"
FOLDER = files(__package__) / "published"
"""Where the files of numbers lie, one per paper."""


@dataclass(frozen=True)
class Number:
    """One printed cell and the tag of its source."""

    text: str
    source: str = "S"

    @property
    def value(self) -> float | None:
        """The number without its spread; None where the cell is no number, such as O(MC)."""
        return _number(self.text.partition("±")[0])

    @property
    def spread(self) -> float | None:
        """The printed plus-minus."""
        return _number(self.text.partition("±")[2])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"text": self.text, "value": self.value, "spread": self.spread, "source": self.source}

    def __str__(self) -> str:
        return f"{self.text} [{self.source}]"


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"[\d.]+", text) else None


@dataclass(frozen=True)
class PrintedRow:
    """What a table prints for one experiment: its row's label, the group of columns, number by column."""

    label: str
    group: str
    numbers: Mapping[str, Number]

    @property
    def name(self) -> str:
        """Label and group in small letters and signs that need no quotes on a command line."""
        words = re.sub(r"[^\w.+*=-]+", "-", f"{self.group} {self.label}".lower().replace("†", "large"))
        return words.strip("-").replace("*", "_star")


@dataclass(frozen=True)
class PrintedTable:
    """A table as printed.

    Attributes:
        id: `paper/name`, also of its study.
        citation: the paper.
        title: what it shows.
        source: the tag of its numbers.
        columns: keys without their groups, in printed order.
        rows: every experiment that has a number, in printed order.
    """

    id: str
    citation: str
    title: str
    source: str
    columns: tuple[str, ...]
    rows: tuple[PrintedRow, ...] = field(repr=False)

    def row(self, label: str, group: str = "") -> PrintedRow:
        """The numbers of an experiment.

        Raises:
            UnknownNameError: no such row; with the near miss.
        """
        known = {f"{row.group}:{row.label}": row for row in self.rows}
        return look_up(known, f"{group}:{label}", "printed row")


def printed_tables(paper: str) -> dict[str, PrintedTable]:
    """The tables and figures of a paper, by name such as `table7`."""
    of = citation(paper)
    return {
        name: _table(f"{paper}/{name}", of, entry)
        for name, entry in _content(paper).items()
        if isinstance(entry, dict)
    }


def citation(paper: str) -> str:
    """Authors, title and place of a paper."""
    return str(_content(paper)["citation"])


def _content(paper: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{paper}.toml").read_text(encoding="utf-8"))


def _table(name: str, of_paper: str, entry: dict[str, Any]) -> PrintedTable:
    source = entry.get("source", "S")
    places = [_group_and_key(column) for column in entry["columns"]]
    groups = list(dict.fromkeys(group for group, _ in places))
    rows = []
    for group in groups:
        for label, cells in entry["rows"].items():
            numbers = {
                key: Number(text, source)
                for (of, key), text in zip(places, cells, strict=True)
                if of == group and text != BLANK
            }
            if numbers:
                rows.append(PrintedRow(label, group, numbers))
    columns = tuple(dict.fromkeys(key for _, key in places))
    return PrintedTable(name, of_paper, entry["title"], source, columns, tuple(rows))


def _group_and_key(column: str) -> tuple[str, str]:
    group, colon, key = column.rpartition(":")
    return (group, key) if colon else ("", column)
