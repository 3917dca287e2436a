"""Sizes at which every way of counting takes part, against sorting all similarities in numpy.

Rows of small whole numbers have no rounding, so numpy's float64 order is the truth, ties included.
"""

import numpy as np
import pytest

from lookalike.evaluation import evaluate


def by_sorting(rows, labels, ks):
    """Per-query metrics from the fully sorted similarities, own row taken out, ties by index."""
    sims = rows.astype(np.float64) @ rows.astype(np.float64).T
    count = len(rows)
    order = np.argsort(-sims, axis=1, kind="stable")
    order = order[order != np.arange(count)[:, None]].reshape(count, count - 1)
    relevant = labels[order] == labels[:, None]
    total = relevant.sum(axis=1)
    hits = relevant.cumsum(axis=1)
    place = np.arange(1, count)
    inside = relevant & (place <= total[:, None])
    with np.errstate(invalid="ignore", divide="ignore"):
        values = {f"recall_at_{k}": (hits[:, k - 1] > 0).astype(float) for k in ks}
        values |= {f"precision_at_{k}": hits[:, k - 1] / k for k in ks}
        values |= {f"ir_recall_at_{k}": hits[:, k - 1] / total for k in ks}
        values["r_precision"] = inside.sum(axis=1) / total
        values["map_at_r"] = (inside * hits / place).sum(axis=1) / total
        values["mrr"] = 1 / (relevant.argmax(axis=1) + 1)
    for column in values.values():
        column[total == 0] = np.nan
    return values


def whole_numbers(classes, count, spread, seed):
    """Classes of whole-number vectors; a tenth of the rows are copies of others."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, count)
    rows = np.round(generator.normal(size=(classes, 8)) * 3)[labels]
    rows += np.round(generator.normal(size=(count, 8)) * spread)
    rows[-count // 10 :] = rows[: -(-count // 10)]
    return rows.astype(np.float32), labels


@pytest.mark.parametrize("block", [8192, 700])
@pytest.mark.parametrize(
    ("classes", "spread"),
    [(20, 1.0), (20, 50.0), (5, 3.0), (300, 0.5), (300, 2.0), (300, 50.0), (1400, 1.0)],
    ids=["few near", "few random", "very few", "some tight", "some near", "some random", "mostly singletons"],
)
def test_equals_sorting_everything(classes, spread, block):
    rows, labels = whole_numbers(classes, 1501, spread, seed=classes)
    result = evaluate(rows, labels, ks=(1, 5, 100), similarity="dot", query_block=block, gallery_block=block)
    for key, expected in by_sorting(rows, labels, (1, 5, 100)).items():
        assert np.allclose(result.per_query[key], expected, atol=1e-12, equal_nan=True), key


def test_small_blocks_give_the_same():
    rows, labels = whole_numbers(60, 1501, 2.0, seed=0)
    square = evaluate(rows, labels, query_block=600, gallery_block=600)
    wide = evaluate(rows, labels, query_block=300, gallery_block=1100)
    assert square.to_dict() == wide.to_dict()


def test_little_memory_gives_the_same():
    rows, labels = whole_numbers(10, 1501, 2.0, seed=0)
    assert evaluate(rows, labels, memory_mb=5).to_dict() == evaluate(rows, labels).to_dict()


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_equal_rows_rank_by_index(similarity):
    """A collapsed model: every row is a copy, so a query retrieves the first row that is not its own."""
    rows, labels = np.full((400, 16), 0.37, dtype=np.float32), np.arange(400) % 40
    result = evaluate(rows, labels, ks=(1,), similarity=similarity)
    assert result.per_query["recall_at_1"].nonzero()[0].tolist() == list(range(40, 400, 40))
    assert result.counts["tied_queries"] == 400
    assert result.counts["duplicates"] == 399


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_nearly_the_same_keeps_its_order(similarity):
    """Differences far below the rounding of a float32 product still decide."""
    generator = np.random.default_rng(0)
    rows = (1 + 1e-5 * generator.normal(size=(300, 64))).astype(np.float32)
    labels = np.arange(300) % 30
    exact = rows.astype(np.float64)
    if similarity == "cosine":
        exact /= np.sqrt((exact**2).sum(axis=1, keepdims=True))
        exact = np.round(exact * 2**26) / 2**26
    sims = exact @ exact.T
    if similarity == "euclidean":
        sims = -((exact[:, None] - exact[None]) ** 2).sum(axis=2)
    np.fill_diagonal(sims, -np.inf)
    hits = labels[sims.argmax(axis=1)] == labels
    result = evaluate(rows, labels, ks=(1,), similarity=similarity)
    assert np.mean(result.per_query["recall_at_1"] == hits) > 0.99  # numpy's own last digits may break ties


def test_classes_of_a_thousand():
    """Most of the gallery is within reach, so no positive can be given up."""
    rows, labels = whole_numbers(3, 3001, 3.0, seed=5)
    result = evaluate(rows, labels, ks=(1, 10), similarity="dot", query=np.arange(0, 3001, 15), memory_mb=20)
    expected = by_sorting(rows, labels, (1, 10))
    for key, values in expected.items():
        assert np.allclose(result.per_query[key], values[::15], atol=1e-12), key
