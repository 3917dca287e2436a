"""The tables of a study from what has been run: numbers only, no layout.

For each row and metric: published, ours (mean, 95 % interval, n) and difference; and what selected, what was
kept and what it cost. Where a row's data, network, settings or protocol are not the paper's, no difference is
taken: only the order of the rows can be compared then.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lookalike.evaluation.intervals import Interval, student_interval
from lookalike.studies.metric_keys import COSTS
from lookalike.studies.protocols import PROTOCOLS
from lookalike.studies.protocols.folds import JOINED
from lookalike.studies.results import AS_PUBLISHED, Result, load_results
from lookalike.studies.study import DATASETS, Row, Study

RETRIEVALS = "retrievals"


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row of the table; `ours` by metric, and `by_seed` by seed and metric, in percent but for costs."""

    row: Row
    dataset: str = ""
    comparable: bool = True
    ours: dict[str, Interval]
    by_seed: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    selected_on: str = ""
    protocol: str = ""
    kept: str = ""
    seconds: float | None = None
    status: str = ""
    curves: tuple[list[dict[str, float]], ...] = ()
    retrievals: tuple[dict[str, Any], ...] = ()

    def difference(self, metric: str) -> float | None:
        """Ours less published, in points, where the two can be compared."""
        printed = self.row.published.get(metric)
        if not self.comparable or metric not in self.ours or printed is None or printed.value is None:
            return None
        return self.ours[metric].mean - printed.value


@dataclass(frozen=True, kw_only=True)
class Table:
    """What a study has given so far under some conditions."""

    study: Study
    conditions: str
    metrics: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def comparable(self) -> bool:
        """Whether every measured row is what its paper ran."""
        return all(line.comparable for line in self.lines if line.ours)

    @property
    def title(self) -> str:
        """Study, data, protocol, and how it departs from the paper."""
        measured = [line for line in self.lines if line.ours]
        used = sorted({line.dataset for line in measured})
        data = ", ".join(DATASETS.get(name, name) for name in used) or "no data"
        protocols = sorted({line.protocol for line in measured})
        how = ", ".join(f"protocol {name}, selected on {PROTOCOLS[name].selected_on}" for name in protocols)
        changes = "" if self.conditions == AS_PUBLISHED else f" ({self.conditions})"
        title = f"{self.study.id}: {self.study.title}. Measured on {data}{changes}, {how or 'nothing run'}"
        return title if self.comparable else f"{title}. Not the paper's experiment"


def build_tables(study: Study, out: Path) -> list[Table]:
    """The tables of a study in a folder of runs, one for each set of conditions."""
    results = [result for result in load_results(out) if result.study == study.id]
    conditions = dict.fromkeys(result.conditions for result in results)
    return [
        _table(study, name, [result for result in results if result.conditions == name])
        for name in conditions
    ]


def _table(study: Study, conditions: str, results: list[Result]) -> Table:
    lines = []
    for row in study.rows:
        own = [result for result in results if result.row == row.name]
        if own or conditions == AS_PUBLISHED:
            lines.append(_line(row, own))
    metrics = [*study.metrics]
    if any(result.protocol == "folds" for result in results):
        metrics += [f"{JOINED}{metric}" for metric in study.metrics]
    shown = [m for m in metrics if any(m in line.ours or m in line.row.published for line in lines)]
    return Table(study=study, conditions=conditions, metrics=tuple(shown), lines=tuple(lines))


def _line(row: Row, results: list[Result]) -> Line:
    if not results:
        return Line(row=row, ours={}, status="not run" if row.recipe else "cited")
    by_seed = {result.seed: _finite(result.score) for result in results if result.score}
    scores = [result.score for result in results if result.score]
    failed = next((result.error for result in results if result.error), "")
    return Line(
        row=row,
        dataset=results[0].dataset,
        comparable=all(result.comparable for result in results),
        ours=_intervals(list(by_seed.values())),
        by_seed=by_seed,
        selected_on=_counted([score["selected_on"] for score in scores]),
        protocol=results[0].protocol,
        kept=_counted([score["kept"] for score in scores]),
        seconds=sum(score["seconds"] for score in scores) / len(scores) if scores else None,
        status=f"failed: {failed}" if failed else "",
        curves=tuple(score["curve"] for score in scores),
        retrievals=tuple(scores[0]["facts"].get(RETRIEVALS, ())) if scores else (),
    )


def _finite(score: dict[str, Any]) -> dict[str, float]:
    """The metrics of a score in the units of the table, but for those that JSON holds null for."""
    return {
        key: value * (1 if key.removeprefix(JOINED) in COSTS else 100)
        for key, value in score["metrics"].items()
        if value is not None and math.isfinite(value)
    }


def _intervals(of_seeds: Sequence[dict[str, float]]) -> dict[str, Interval]:
    """Mean and interval over the seeds of every metric."""
    keys = sorted({key for values in of_seeds for key in values})
    return {key: student_interval([values[key] for values in of_seeds if key in values]) for key in keys}


def half_width(interval: Interval) -> float | None:
    """Half of an interval's width, or None of a single value."""
    half = interval.high - interval.mean
    return None if math.isnan(half) else half


def _counted(words: list[str]) -> str:
    """`trained`, or `trained 2, start 1` where the seeds differ."""
    kinds = sorted(set(words), key=words.count, reverse=True)
    return "".join(kinds) if len(kinds) < 2 else ", ".join(f"{kind} {words.count(kind)}" for kind in kinds)
