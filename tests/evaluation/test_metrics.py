"""Formulas on ranks, by hand."""

import numpy as np
import pytest

from lookalike.evaluation.metrics import (
    expected_metrics,
    mean_by_class,
    ranks_of_positives,
    retrieval_metrics,
)


def test_one_query_by_hand():
    """Right rows at ranks 2, 4, 6 and 9: five numbers that all get called precision or recall somewhere."""
    ahead = np.array([5, 1, 3, 2])  # ranks 9, 2, 6, 4 less the right rows before each
    values = retrieval_metrics(np.zeros(4, dtype=np.int64), ahead, np.array([4]), ks=(1, 4, 10))
    expected = {
        "recall_at_1": 0, "recall_at_4": 1, "recall_at_10": 1,
        "precision_at_1": 0, "precision_at_4": 2 / 4, "precision_at_10": 4 / 10,
        "ir_recall_at_1": 0, "ir_recall_at_4": 2 / 4, "ir_recall_at_10": 1,
        "r_precision": 2 / 4, "map_at_r": (1 / 2 + 2 / 4) / 4, "mrr": 1 / 2,
    }  # fmt: skip
    assert {key: column[0] for key, column in values.items()} == pytest.approx(expected)


def test_ranks_count_the_right_rows_before():
    rank, place = ranks_of_positives(np.array([0, 0, 1]), np.array([3, 0, 2]), np.array([2, 1]))
    assert rank.tolist() == [1, 5, 3]
    assert place.tolist() == [1, 2, 1]


def test_a_query_without_right_rows_has_no_value():
    values = retrieval_metrics(np.array([1]), np.array([0]), np.array([0, 1]), ks=(1,))
    assert all(np.isnan(column[0]) and column[1] == 1 for column in values.values())


def test_expected_of_one_right_among_one_wrong():
    """Two equal rows, one right: first place half of the time, second place the other half."""
    values = expected_metrics(np.array([0]), np.array([1]), (1, 2))
    assert values["recall_at_1"] == pytest.approx(1 / 2)
    assert values["recall_at_2"] == pytest.approx(1)
    assert values["mrr"] == pytest.approx((1 + 1 / 2) / 2)
    assert values["map_at_r"] == pytest.approx(1 / 2)


def test_mean_by_class_leaves_out_what_was_not_scored():
    classes, means = mean_by_class(np.array([1.0, 0.0, np.nan, 1.0]), np.array([3, 3, 3, 5]))
    assert classes.tolist() == [3, 5]
    assert means.tolist() == [0.5, 1.0]
