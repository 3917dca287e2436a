"""Whether the rows of a study are in the published order, pair by pair."""

import math
from dataclasses import dataclass

from lookalike.evaluation.intervals import student_interval
from lookalike.studies.metric_keys import COSTS
from lookalike.studies.table import Line, Table


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Of how many pairs of rows the order is as published, and of how many even beyond chance.

    Rows of one data set only are paired; pairs printed as equal are left out. A pair is confirmed (or refuted) where
    the 95 % Student interval of the difference by seed is above 0 on the published side (or on the other).
    """

    metric: str
    pairs: int
    as_published: int
    confirmed: int
    refuted: int


def find_agreement(table: Table) -> Agreement | None:
    """The agreement of orders by the first metric that two rows have; None without a pair."""
    for metric in table.metrics:
        known = [
            (line, printed.value)
            for line in table.lines
            if metric in line.ours
            and (printed := line.row.published.get(metric)) is not None
            and printed.value is not None
        ]
        signs = [
            (math.copysign(1, one_value - other_value), one, other)
            for number, (one, one_value) in enumerate(known)
            for other, other_value in known[number + 1 :]
            if one.row.dataset == other.row.dataset and one_value != other_value
        ]
        if signs and metric not in COSTS:
            return Agreement(
                metric=metric,
                pairs=len(signs),
                as_published=sum(
                    sign * (one.ours[metric].mean - other.ours[metric].mean) > 0 for sign, one, other in signs
                ),
                confirmed=sum(_above(one, other, metric) == sign for sign, one, other in signs),
                refuted=sum(_above(one, other, metric) == -sign for sign, one, other in signs),
            )
    return None


def _above(one: Line, other: Line, metric: str) -> int:
    """1 or -1 where the interval of one less other, over the seeds that both have, is above or below 0; else 0."""
    seeds = [seed for seed, values in one.by_seed.items() if metric in values and seed in other.by_seed]
    differences = [
        one.by_seed[seed][metric] - other.by_seed[seed][metric]
        for seed in seeds
        if metric in other.by_seed[seed]
    ]
    if len(differences) < 2:
        return 0
    interval = student_interval(differences)
    return int(interval.low > 0) - int(interval.high < 0)
