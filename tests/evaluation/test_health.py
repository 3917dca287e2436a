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


def test_collapse_is_told():
    rows = 1 + 0.001 * np.random.default_rng(0).normal(size=(50, 8))
    health = embedding_health(rows, np.arange(50) % 5)
    assert health.collapsed
    assert "embeddings have collapsed" in health.warning


def test_one_class_and_only_singletons():
    assert np.isnan(embedding_health(np.eye(3), [0, 0, 0]).between)
    assert np.isnan(embedding_health(np.eye(3), [0, 1, 2]).within)
