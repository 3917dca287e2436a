"""Thresholds: counts against a loop, targets that are reached, and their interval."""

import numpy as np
import pytest

from lookalike.errors import ArgumentError, UnknownNameError
from lookalike.search.thresholds import BINS, LEAST_CLASSES, PairCounts, choose_threshold, count_pairs


def clusters(classes=12, each=6, dim=16, noise=0.6, seed=0):
    draws = np.random.default_rng(seed)
    centers = draws.standard_normal((classes, dim))
    labels = np.repeat(np.arange(classes), each)
    return (centers[labels] + noise * draws.standard_normal((len(labels), dim))).astype(np.float32), labels


def pairs(vectors, labels):
    """(similarity, same class) of every ordered pair of different rows, in a loop."""
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = range(len(labels))
    return [(float(units[a] @ units[b]), labels[a] == labels[b]) for a in rows for b in rows if a != b]


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_counts_are_those_of_a_loop(block):
    vectors, labels = clusters(classes=4, each=3)
    counts = count_pairs(vectors, labels, block=block)
    every = pairs(vectors, labels)
    assert counts.same.sum() == sum(same for _, same in every)
    assert counts.different.sum() == sum(not same for _, same in every)
    assert counts.same.shape == (4, BINS)
    for t in (-0.5, 0.0, 0.5, 0.9):
        at = int((t + 1) * BINS / 2)
        assert counts.same[:, at:].sum() == pytest.approx(sum(s and v >= t for v, s in every), abs=1)


@pytest.mark.parametrize(
    ("target", "wanted"), [("precision", 0.9), ("false_match_rate", 0.01), ("recall", 0.9)]
)
def test_a_threshold_reaches_its_target_and_its_neighbor_does_not(target, wanted):
    vectors, labels = clusters()
    chosen = choose_threshold(count_pairs(vectors, labels), target=target, wanted=wanted)
    every = pairs(vectors, labels)

    def rates(t):
        matched = sum(s and v >= t for v, s in every)
        mistaken = sum((not s) and v >= t for v, s in every)
        all_same = sum(s for _, s in every)
        return {
            "precision": matched / max(1, matched + mistaken),
            "recall": matched / all_same,
            "false_match_rate": mistaken / (len(every) - all_same),
        }

    reached, step = rates(chosen.similarity), 2 / BINS
    assert getattr(chosen, target) == pytest.approx(reached[target], abs=0.01)
    next_to_it = rates(chosen.similarity + (3 * step if target == "recall" else -3 * step))
    if target == "false_match_rate":
        assert reached[target] <= wanted < next_to_it[target] + 0.005
    else:
        assert reached[target] >= wanted > next_to_it[target] - 0.05
    assert chosen.low <= chosen.similarity <= chosen.high or chosen.high - chosen.low < 0.2
    assert chosen.classes == 12


def test_more_classes_give_a_narrower_interval():
    few, many = (
        choose_threshold(count_pairs(*clusters(classes=c)), target="recall", wanted=0.9) for c in (6, 60)
    )
    assert many.high - many.low < few.high - few.low


@pytest.mark.parametrize(
    ("classes", "stated"), [(2, False), (LEAST_CLASSES - 1, False), (LEAST_CLASSES, True)]
)
def test_an_interval_is_stated_where_classes_are_enough(classes, stated):
    chosen = choose_threshold(count_pairs(*clusters(classes=classes)), target="recall", wanted=0.9)
    assert (chosen.low is not None, chosen.high is not None) == (stated, stated)
    assert ("too few for an interval" in str(chosen)) is not stated


def test_what_cannot_be_chosen_is_refused():
    vectors, labels = clusters()
    counts = count_pairs(vectors, labels)
    with pytest.raises((ArgumentError, UnknownNameError), match="target"):
        choose_threshold(counts, target="precison")
    with pytest.raises(ArgumentError, match=r"must lie between 0 and 1"):
        choose_threshold(counts, wanted=95)
    with pytest.raises(ArgumentError, match="at least two classes"):
        count_pairs(vectors[:6], labels[:6])
    mixed = PairCounts(np.ones((3, BINS), np.int64), 9 * np.ones((3, BINS), np.int64))
    with pytest.raises(ArgumentError, match=r"no threshold reaches a precision of 0.95 .* best is 0.100"):
        choose_threshold(mixed)
