"""METRICS: its formulas by hand, the door for new metrics, and the one function that refuses names."""

import numpy as np
import pytest

from lookalike.cli.common import metric_rows
from lookalike.cli.listing import KINDS
from lookalike.errors import UnknownNameError
from lookalike.evaluation import METRICS, Metric, evaluate, find_metric, metric_keys
from lookalike.evaluation.metrics import format_value, table_keys
from lookalike.evaluation.ranks import Ranks


def test_one_query_by_hand():
    """Positives at ranks 2, 4, 6 and 9: five numbers that are all called precision or recall somewhere."""
    ahead = np.array([5, 1, 3, 2])  # ranks 9, 2, 6, 4 minus the positives before each
    ranks = Ranks.from_counts(np.zeros(4, dtype=np.int64), ahead, np.array([4]))
    ks = (1, 4, 10)
    found = {
        key: values[0]
        for metric in METRICS.values()
        for key, values in zip(metric.keys(ks), metric.compute(ranks, ks), strict=False)
    }
    assert found == pytest.approx({
        "recall_at_1": 0, "recall_at_4": 1, "recall_at_10": 1,
        "precision_at_1": 0, "precision_at_4": 2 / 4, "precision_at_10": 4 / 10,
        "ir_recall_at_1": 0, "ir_recall_at_4": 2 / 4, "ir_recall_at_10": 1,
        "r_precision": 2 / 4, "map_at_r": (1 / 2 + 2 / 4) / 4, "mrr": 1 / 2,
    })  # fmt: skip


def test_ranks_count_the_positives_before():
    ranks = Ranks.from_counts(np.array([0, 0, 1]), np.array([3, 0, 2]), np.array([2, 1]))
    assert ranks.rank.tolist() == [1, 5, 3]
    assert ranks.position.tolist() == [1, 2, 1]
    assert ranks.best.tolist() == [1, 3]


def test_every_entry_has_one_function_and_its_own_key():
    for key, metric in METRICS.items():
        functions = (metric.of_ranks, metric.of_ranks_at_k, metric.of_clusters)
        assert sum(function is not None for function in functions) == 1
        assert metric.key == key
        assert key.endswith("_at_k") == (metric.of_ranks_at_k is not None)


def test_a_result_has_every_metric_in_the_order_of_the_table():
    rows = np.random.default_rng(0).normal(size=(20, 4))
    result = evaluate(rows, np.arange(20) % 4, clustering=True)
    assert list(result.values) == metric_keys()


def test_a_new_metric_is_one_entry(monkeypatch):
    """Values, per-query arrays, averages, tables, names and texts all follow from the entry."""
    toy = Metric(
        key="first_rank",
        title="Rank of the nearest positive",
        formula="rank_1",
        meaning="How far down the nearest positive is.",
        elsewhere="A toy.",
        of_ranks=lambda ranks: ranks.best.astype(float),
        higher_is_better=False,
        percent=False,
    )
    monkeypatch.setitem(METRICS, toy.key, toy)
    result = evaluate(np.array([[1, 0], [0.9, 0.1], [0.95, 0.05]]), [0, 0, 1], ks=(1,))
    assert result.per_query["first_rank"][:2].tolist() == [2.0, 2.0]
    assert result.first_rank == result.class_average["first_rank"] == 2.0
    assert result.to_dict()["first_rank"] == 2.0
    assert ["first_rank", "2"] in metric_rows({"test": result.values})[1]
    assert find_metric("first_rank") is toy
    (listed,) = (facts for facts in KINDS["metrics"].facts() if facts["metric"] == "first_rank")
    assert listed["formula"] == "rank_1"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("map_at_rr", "map_at_r"), ("recal_at_10", "recall_at_10"), ("recall@1", "recall_at_1"), ("NMI", "nmi")],
)
def test_mistyped_names_are_refused_with_the_near_miss(typed, meant):
    with pytest.raises(UnknownNameError, match=rf"unknown metric '{typed}'; did you mean '{meant}'\?"):
        find_metric(typed)


@pytest.mark.parametrize("key", ["recall_at_0", "recall_at_-1", "nmi_3", "", "_"])
def test_no_metric_has_these_names(key):
    with pytest.raises(UnknownNameError):
        find_metric(key)


def test_tables_show_percent_in_order():
    assert table_keys({"mrr": 0, "recall_at_8": 0, "precision_at_1": 0, "recall_at_1": 0, "loss": 0}) == [
        "recall_at_1",
        "recall_at_8",
        "mrr",
    ]
    assert format_value("mrr", 0.12345) == "12.35"
    assert format_value("mrr", None) == format_value("mrr", float("nan")) == "-"
