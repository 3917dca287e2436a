"""Open-set figures, worked by hand and against slow twins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.errors import ArgumentError
from lookalike.evaluation import evaluate
from lookalike.evaluation.open_set import evaluate_open_set, open_set_figures

SIMILARITIES = st.lists(st.integers(-8, 8).map(lambda n: n / 8), min_size=1, max_size=12)


def test_by_hand():
    known, right = np.array([0.9, 0.8, 0.6, 0.4]), np.array([True, False, True, True])
    unknown = np.array([0.7, 0.5, 0.3, 0.1])
    result = open_set_figures(known, right, unknown, rates=(0.0, 0.25, 0.5))
    assert result.detection_rates == {0.0: 0.25, 0.25: 0.5, 0.5: 0.75}
    assert result.auroc == pytest.approx((4 + 4 + 3 + 2) / 16)
    assert (result.known, result.unknown) == (4, 4)


@given(known=SIMILARITIES, unknown=SIMILARITIES)
def test_auroc_and_rates_are_those_of_loops(known, unknown):
    right = np.ones(len(known), dtype=bool)
    result = open_set_figures(np.array(known), right, np.array(unknown), rates=(0.1, 0.5))
    wins = [1.0 if a > b else 0.5 if a == b else 0.0 for a in known for b in unknown]
    assert result.auroc == pytest.approx(sum(wins) / len(wins))
    for rate, detected in result.detection_rates.items():
        bars = [t for t in (-9, *unknown) if sum(u > t for u in unknown) <= rate * len(unknown)]
        assert detected == sum(k > min(bars) for k in known) / len(known)


def test_separated_classes_are_distinguished_perfectly():
    labels = np.repeat(np.arange(8), 3)
    vectors = np.eye(8, dtype=np.float32)[labels] + 0.01 * np.random.default_rng(0).standard_normal((24, 8))
    result = evaluate_open_set(vectors.astype(np.float32), labels, [f"c{i}" for i in range(8)])
    assert result.auroc == 1
    assert set(result.detection_rates.values()) == {1.0}
    assert result.known == result.unknown == 12


def test_evaluate_takes_the_queries_whose_class_a_separate_gallery_lacks():
    labels = np.repeat(np.arange(6), 4)
    vectors = np.eye(6, dtype=np.float32)[labels] + 0.3 * np.random.default_rng(1).random((24, 6), np.float32)
    held = labels < 3
    result = evaluate(
        vectors, labels, gallery_embeddings=vectors[held], gallery_labels=labels[held], open_set=True
    )
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    best = (units @ units[held].T).max(axis=1)
    wins = [(a > b) + (a == b) / 2 for a in best[held] for b in best[~held]]
    assert result.open_set.auroc == pytest.approx(np.mean(wins), abs=1e-6)
    assert (result.open_set.known, result.open_set.unknown) == (12, 12)
    assert "open set: detected" in result.summary()
    assert result.to_dict()["open_set"]["auroc"] == result.open_set.auroc


def test_evaluate_leaves_half_of_the_classes_out_of_a_shared_gallery():
    labels = 10 * np.repeat(np.arange(8), 3)
    vectors = np.eye(8, dtype=np.float32)[labels // 10]
    assert evaluate(vectors, labels).open_set is None
    assert evaluate(vectors, labels, open_set=True).open_set.auroc == 1
    with pytest.raises(ArgumentError, match="known and unknown queries"):
        evaluate(vectors, labels, gallery_embeddings=vectors, gallery_labels=labels, open_set=True)


def test_the_figures_do_not_hang_on_one_half():
    """The order of the labels' numbers and names decides which halves are drawn, not what they are on average."""
    draws = np.random.default_rng(0)
    labels = np.repeat(np.arange(16), 6)
    vectors = draws.standard_normal((16, 8))[labels] + 0.8 * draws.standard_normal((96, 8))
    found = [
        evaluate_open_set(vectors.astype(np.float32), labels, [f"{prefix}{i}" for i in range(16)])
        for prefix in "abcdef"
    ]
    assert {(one.known, one.unknown) for one in found} == {(48, 48)}
    assert np.ptp([one.auroc for one in found]) < 0.05
    assert np.ptp([one.detection_rates[0.1] for one in found]) < 0.2


def test_too_few_classes_are_refused():
    with pytest.raises(ArgumentError, match="at least 4 classes"):
        evaluate_open_set(np.eye(3, dtype=np.float32), np.arange(3), ["a", "b", "c"])
    with pytest.raises(ArgumentError, match="two images"):
        evaluate_open_set(np.eye(4, dtype=np.float32), np.arange(4), list("abcd"))
