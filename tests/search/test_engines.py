"""One contract for every engine, and what an approximate one is worth."""

import sys

import numpy as np
import pytest

from lookalike.errors import MissingExtraError
from lookalike.search import ENGINES
from lookalike.search.engines import ExactEngine, FaissEngine, overlap


def unit(count, width=8, seed=0):
    vectors = np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def small_graph(vectors):
    return FaissEngine(vectors, flat_below=1)


EVERY = {**ENGINES, "faiss graph": small_graph}


@pytest.fixture(params=EVERY)
def engine(request):
    if "faiss" in request.param:
        pytest.importorskip("faiss", reason="pip install 'lookalike[faiss]' is absent")
    return EVERY[request.param]


@pytest.mark.parametrize("count", [1, 3, 200])
@pytest.mark.parametrize("k", [1, 5, 300])
def test_contract(engine, count, k):
    vectors, queries = unit(count), unit(4, seed=1)
    rows, similarities = engine(vectors).search(queries, k)
    width = min(k, count)
    assert rows.shape == similarities.shape == (4, width)
    assert rows.dtype == np.int64
    assert similarities.dtype == np.float32
    assert rows.min() >= 0
    assert rows.max() < count, "never a filler"
    assert all(len(set(line)) == width for line in rows.tolist()), "each row at most once"
    assert (np.diff(similarities, axis=1) <= 1e-6).all(), "most similar first"
    cosines = np.take_along_axis(queries @ vectors.T, rows, axis=1)
    np.testing.assert_allclose(similarities, cosines, atol=1e-5)


def test_small_sets_are_found_exactly(engine):
    vectors, queries = unit(200), unit(20, seed=1)
    rows, _ = engine(vectors).search(queries, 5)
    slow = [sorted(range(200), key=lambda row: -float(query @ vectors[row]))[:5] for query in queries]
    assert rows.tolist() == slow


def test_the_exact_engine_orders_ties_by_row():
    vectors = np.repeat(unit(2), 3, axis=0)
    rows, _ = ExactEngine(vectors).search(vectors[:1], 6)
    assert rows[0, :3].tolist() == [0, 1, 2]


def test_overlap_is_the_share_of_true_neighbors():
    vectors = unit(100)

    class HalfWrong:
        def search(self, queries, k):
            rows, similarities = ExactEngine(vectors).search(queries, k)
            similarities[:, k // 2 :] = -1
            return rows, similarities

    assert overlap(ExactEngine(vectors), vectors, k=10, sample=30) == 1
    assert overlap(HalfWrong(), vectors, k=10, sample=30) == 0.5


def test_a_graph_finds_nearly_all_of_a_larger_set():
    pytest.importorskip("faiss", reason="pip install 'lookalike[faiss]' is absent")
    vectors = unit(3000, width=32)
    assert overlap(small_graph(vectors), vectors, k=10, sample=100) > 0.95


def test_a_missing_faiss_prints_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'lookalike\[faiss\]'"):
        FaissEngine(unit(3))
