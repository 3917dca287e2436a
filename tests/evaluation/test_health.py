"""Health against plain loops, and the warning."""

import numpy as np
import pytest

from lookalike.evaluation import embedding_health


def test_means_and_rank_equal_loops():
    generator = np.random.default_rng(0)
    rows, labels = generator.normal(size=(25, 4)), generator.integers(0, 4, 25)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    within, between = [], []
    for i in range(25):
        for j in range(25):
            if i != j:
                (within if labels[i] == labels[j] else between).append(unit[i] @ unit[j])
    health = embedding_health(rows, labels)
    assert health.within == pytest.approx(np.mean(within))
    assert health.between == pytest.approx(np.mean(between))
    shares = np.linalg.svd(unit, compute_uv=False)
    shares /= shares.sum()
    assert health.effective_rank == pytest.approx(np.exp(-(shares * np.log(shares)).sum()))
    assert not health.collapsed
    assert health.warning == ""


def test_orthogonal_rows_use_every_direction():
    assert embedding_health(np.eye(6), np.arange(6) // 2).effective_rank == pytest.approx(6)


def test_collapse_is_reported():
    rows = 1 + 0.001 * np.random.default_rng(0).normal(size=(50, 8))
    health = embedding_health(rows, np.arange(50) % 5)
    assert health.collapsed
    assert "embeddings have collapsed" in health.warning


def test_one_class_and_only_singletons():
    assert np.isnan(embedding_health(np.eye(3), [0, 0, 0]).between)
    assert np.isnan(embedding_health(np.eye(3), [0, 1, 2]).within)


@pytest.mark.parametrize("value", [0.0, 1.0, 1e-300, 1e300, np.inf, np.nan])
@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 5), (50, 3), (3, 50)])
def test_degenerate_matrices_are_reported_never_an_error(value, shape):
    rows = np.full(shape, value)
    health = embedding_health(rows, np.zeros(shape[0], dtype=int))
    assert 0 <= health.effective_rank <= min(shape) + 1e-6
    assert health.collapsed
    assert ("not finite" in health.warning) == (not np.isfinite(value))


def test_a_few_rows_that_are_not_finite_are_counted():
    rows = np.random.default_rng(0).normal(size=(20, 4))
    rows[3, 1] = np.nan
    rows[7] = -np.inf
    assert embedding_health(rows, np.arange(20) % 5).warning.startswith("2 of 20 embeddings are not finite")
