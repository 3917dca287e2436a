"""The table of a study out of whatever has been run: numbers only, no layout.

For each row and metric: published, ours (mean, 95 % interval, n), difference; and what selected, what was
kept and what it cost. Where the images, the network or the settings are not the paper's, published numbers
are set apart from ours, and no difference is taken: only the order of the rows can be compared then.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookalike.evaluation.intervals import Interval, student_interval
from lookalike.studies.plan import Plan, failure_of, load_plan, score_of
from lookalike.studies.protocols import PROTOCOLS
from lookalike.studies.study import DATASETS, Published, Row, Study

COSTS = ("seconds_per_epoch", "peak_memory_mb")
"""Metrics that are not shares, so not shown in percent."""


@dataclass(frozen=True)
class Line:
    """A row of the table; `ours` by metric, in percent but for costs."""

    row: Row
    dataset: str
    ours: dict[str, Interval]
    planned: int
    selected_on: str
    kept: str
    seconds: float | None
    status: str
    curves: list[list[dict[str, float]]]

    def difference(self, metric: str) -> float | None:
        """Ours less published, in points."""
        if metric not in self.ours or metric not in self.row.published:
            return None
        return self.ours[metric].mean - self.row.published[metric].value


@dataclass(frozen=True)
class Table:
    """What a study has given so far in one variant."""

    study: Study
    plan: Plan
    comparable: bool
    metrics: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        """Study, data, protocol, and how it departs from the paper."""
        used = sorted({line.dataset for line in self.lines if line.dataset})
        data = ", ".join(DATASETS.get(name, name) for name in used) or "no data"
        name = self.plan.protocol
        how = f"protocol {name}, selected on {PROTOCOLS[name].selected_on}"
        changes = f", {self.plan.changes}" if self.plan.changes else ""
        title = f"{self.study.id}: {self.study.title}. Measured on {data}, {how}{changes}"
        return title if self.comparable else f"{title}. Not the paper's experiment"

    def published(self, line: Line, metric: str) -> Published | None:
        """The printed number."""
        return line.row.published.get(metric)

    def agreement(self) -> tuple[str, int, int] | None:
        """Metric, and of how many pairs of rows the order is as published, of how many pairs that have both.

        Rows of one data set only are paired; pairs printed as equal are left out.
        """
        for metric in self.metrics:
            same = pairs = 0
            known = [line for line in self.lines if metric in line.ours and metric in line.row.published]
            for place, one in enumerate(known):
                for other in known[place + 1 :]:
                    printed = one.row.published[metric].value - other.row.published[metric].value
                    if one.row.dataset == other.row.dataset and printed:
                        pairs += 1
                        same += printed * (one.ours[metric].mean - other.ours[metric].mean) > 0
            if pairs and metric not in COSTS:
                return metric, same, pairs
        return None


def build_table(study: Study, folder: Path, out: Path) -> Table:
    """The table of a variant's folder.

    Raises:
        FileError: no plan there.
    """
    plan = load_plan(folder)
    lines = tuple(_line(study.row(name), plan, out) for name in _ordered(study, plan))
    measured = [row for row in plan.rows.values() if row.dataset]
    comparable = plan.comparable and all(row.own_data for row in measured)
    metrics = [*study.metrics]
    if plan.protocol == "folds":
        metrics += [f"concatenated_{metric}" for metric in study.metrics]
    shown = [m for m in metrics if any(m in line.ours or m in line.row.published for line in lines)]
    return Table(study, plan, comparable, tuple(shown), lines)


def _ordered(study: Study, plan: Plan) -> list[str]:
    return [row.name for row in study.rows if row.name in plan.rows]


def _line(row: Row, plan: Plan, out: Path) -> Line:
    planned = plan.rows[row.name]
    found = [(key, score_of(out, key)) for key in planned.keys]
    scores = [score for _, score in found if score is not None]
    keys = sorted({metric for score in scores for metric in score["metrics"]})
    values = {
        key: [s["metrics"][key] for s in scores if math.isfinite(s["metrics"].get(key, math.nan))]
        for key in keys
    }
    ours = {key: _interval(key, known) for key, known in values.items() if known}
    failures = [failure_of(out, key) for key, score in found if score is None]
    failed = next((failure for failure in failures if failure), "")
    return Line(
        row,
        planned.dataset,
        ours,
        len(planned.keys),
        ", ".join(sorted({score["selected_on"] for score in scores})),
        _counted([score["kept"] for score in scores]),
        sum(score["seconds"] for score in scores) / len(scores) if scores else None,
        planned.why_not or (f"failed: {failed}" if failed else ""),
        [score["curve"] for score in scores],
    )


def _interval(key: str, values: list[float]) -> Interval:
    plain = key.removeprefix("concatenated_")
    return student_interval([value * (1 if plain in COSTS else 100) for value in values])


def half_width(interval: Interval) -> float | None:
    """Half of an interval's width, or None of a single value."""
    half = interval.high - interval.mean
    return None if math.isnan(half) else half


def _counted(words: list[str]) -> str:
    """`trained`, or `trained 2, start 1` where the seeds differ."""
    kinds = sorted(set(words), key=words.count, reverse=True)
    return kinds[0] if len(kinds) == 1 else ", ".join(f"{kind} {words.count(kind)}" for kind in kinds)


def as_tree(table: Table) -> dict[str, Any]:
    """The table as plain values for JSON; published numbers only where they may be compared."""
    return {
        "study": table.study.id,
        "title": table.title,
        "comparable": table.comparable,
        "protocol": table.plan.protocol,
        "selected_on": PROTOCOLS[table.plan.protocol].selected_on,
        "metrics": list(table.metrics),
        "rows": [_line_tree(table, line) for line in table.lines],
        "published_elsewhere": {}
        if table.comparable
        else {line.row.name: _published_tree(line) for line in table.lines if line.row.published},
        "order": None
        if (order := table.agreement()) is None
        else {"metric": order[0], "pairs_as_published": order[1], "pairs": order[2]},
    }


def _line_tree(table: Table, line: Line) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "row": line.row.name,
        "dataset": line.dataset or None,
        "seeds_planned": line.planned,
        "ours": {
            key: {"mean": interval.mean, "half_width": half_width(interval), "n": interval.n}
            for key, interval in line.ours.items()
        },
        "selected_on": line.selected_on or None,
        "kept": line.kept or None,
        "seconds": line.seconds,
        "status": line.status or None,
        "note": line.row.note or None,
    }
    if table.comparable:
        tree["published"] = _published_tree(line)
        tree["difference"] = {m: d for m in table.metrics if (d := line.difference(m)) is not None}
    return tree


def _published_tree(line: Line) -> dict[str, Any]:
    return {key: vars(number) for key, number in line.row.published.items()}
