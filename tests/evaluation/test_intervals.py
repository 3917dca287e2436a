"""Intervals: known cases, coverage, and what a paired comparison sees that two intervals do not."""

import numpy as np
import pytest

from lookalike.errors import ArgumentError
from lookalike.evaluation import bootstrap_over_classes, paired_difference, student_interval


def classes_of_ten(generator, classes=60):
    """Values whose classes differ, as real ones do."""
    labels = np.repeat(np.arange(classes), 10)
    return np.clip(
        0.6 + 0.2 * generator.normal(size=classes)[labels] + 0.1 * generator.normal(size=600), 0, 1
    ), labels


def test_equal_classes_leave_nothing_uncertain():
    interval = bootstrap_over_classes(np.tile([0.0, 1.0], 10), np.repeat(np.arange(10), 2))
    assert (interval.mean, interval.low, interval.high, interval.n) == (0.5, 0.5, 0.5, 10)


def test_bootstrap_width_agrees_with_the_spread_of_class_means():
    values, labels = classes_of_ten(np.random.default_rng(0))
    interval = bootstrap_over_classes(values, labels, resamples=4000)
    means = values.reshape(60, 10).mean(axis=1)
    assert interval.mean == pytest.approx(values.mean())
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * means.std(ddof=1) / 60**0.5, rel=0.1)


def test_queries_without_a_match_do_not_count():
    values, labels = np.array([1.0, np.nan, 0.0]), np.array([0, 1, 2])
    assert bootstrap_over_classes(values, labels).n == 2
    with pytest.raises(ArgumentError, match="no query has a value"):
        bootstrap_over_classes(np.array([np.nan]), np.array([0]))


def test_student_interval_by_hand():
    """1, 2, 3: mean 2, s = 1, t(2) at 97.5 % = 4.302653."""
    interval = student_interval([1.0, 2.0, 3.0])
    assert interval.mean == 2.0
    assert interval.high - interval.mean == pytest.approx(4.302653 / 3**0.5, rel=1e-6)
    assert np.isnan(student_interval([0.7]).low)
    with pytest.raises(ArgumentError, match="at least one finite number"):
        student_interval([])
    with pytest.raises(ArgumentError, match="between 0 and 1"):
        bootstrap_over_classes(np.ones(2), np.arange(2), confidence=95)


def test_pairs_reveal_a_small_steady_gain():
    values, labels = classes_of_ten(np.random.default_rng(1))
    better = np.where(np.random.default_rng(2).random(600) < 0.5, values + 0.02, values)
    found = paired_difference("recall_at_1", values, better, labels)
    assert 0 < found.difference.low < 0.01 < found.difference.high
    assert found.p_value < 0.01
    assert found.worse == 0
    assert found.better + found.same == 600


def test_the_same_twice_is_no_difference():
    values, labels = classes_of_ten(np.random.default_rng(1))
    found = paired_difference("mrr", values, values.copy(), labels)
    assert found.difference.mean == 0
    assert found.p_value == 1.0


def test_chance_is_called_significant_about_as_often_as_it_should():
    labels = np.repeat(np.arange(30), 4)
    small = 0
    for seed in range(60):
        generator = np.random.default_rng(seed)
        first, second = generator.random((2, 120))
        small += paired_difference("mrr", first, second, labels, resamples=200).p_value < 0.1
    assert 1 <= small <= 14  # 6 expected, standard deviation 2.3
