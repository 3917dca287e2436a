"""Prepared rows: exact cosines in every order of summation, and nothing global changed."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.ranking import Comparison, Vectors, comparison_device, nearest

CPU = torch.device("cpu")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 700), st.sampled_from([1e-6, 1.0, 1e6]))
def test_cosines_are_the_same_in_every_order_of_summation(seed, dim, scale):
    rows = np.random.default_rng(seed).normal(size=(4, dim)) * scale
    unit = Vectors(rows, "cosine", what="rows", device=CPU).block(0, 4).double()
    order = torch.randperm(dim, generator=torch.Generator().manual_seed(seed))
    assert torch.equal(unit @ unit.T, unit[:, order] @ unit[:, order].T)
    exact = np.array(
        [[sum(a * b for a, b in zip(x, y, strict=True)) for y in unit.tolist()] for x in unit.tolist()]
    )
    assert np.array_equal((unit @ unit.T).numpy(), exact)


def test_prepared_rows_are_close_to_unit_rows():
    rows = np.random.default_rng(0).normal(size=(50, 300))
    unit = Vectors(rows, "cosine", what="rows", device=CPU).block(0, 50).double().numpy()
    expected = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert np.abs(unit - expected).max() < 2**-26
    assert np.abs(unit @ unit.T - expected @ expected.T).max() < 1e-7


def test_the_error_bound_covers_float32_products():
    """Rows all alike put the largest load on the bound: every term has the same sign."""
    generator = np.random.default_rng(0)
    for similarity in ("cosine", "dot", "euclidean"):
        for rows in (generator.normal(size=(64, 256)), 1 + 0.01 * generator.normal(size=(64, 256))):
            vectors = Vectors(rows, similarity, what="rows", device=CPU)
            comparison = Comparison(vectors, vectors)
            index = torch.arange(64)
            rough = comparison.product(index, torch.empty(64, 64)).double()
            exact = comparison.exact(index[:, None], index.expand(64, 64))
            assert float((rough - exact).abs().max()) <= comparison.error
            precise = comparison.product(index, torch.empty(64, 64, dtype=torch.float64))
            assert float((precise - exact).abs().max()) <= comparison.tolerance


def test_blocks_and_single_rows_are_prepared_alike_kept_or_not():
    rows = np.random.default_rng(0).normal(size=(1200, 7))
    kept = Vectors(rows, "cosine", what="rows", device=CPU)
    read = Vectors(rows, "cosine", what="rows", device=CPU, keep=False)
    index = torch.tensor([5, 1100, 513])
    assert torch.equal(kept.block(0, 1200)[index], read.take(index))
    assert torch.equal(kept.take(index), read.take(index))


def test_copies_are_counted():
    rows = np.array([[1.0, 0.0], [2.0, -0.0], [1.0, 1.0], [1.0, 0.0]])
    vectors = Vectors(rows, "cosine", what="rows", device=CPU)
    assert vectors.count_copies() == 2
    assert vectors.count_shared(Vectors(rows[2:3], "cosine", what="rows", device=CPU)) == 1


def test_no_setting_of_the_process_is_touched(monkeypatch):
    """Other threads would see it: a server searches while another thread trains."""

    def refuse(precision):
        raise AssertionError(precision)

    rows = np.random.default_rng(0).normal(size=(30, 40)).astype(np.float32)
    torch.set_float32_matmul_precision("medium")
    try:
        monkeypatch.setattr(torch, "set_float32_matmul_precision", refuse)
        reduced = nearest(rows, rows, 5)
        monkeypatch.undo()
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert np.array_equal(reduced[0], nearest(rows, rows, 5)[0])


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_cosine_never_exceeds_one(similarity):
    rows = np.random.default_rng(0).normal(size=(500, 33)).astype(np.float32)
    _, values = nearest(rows, rows, 3, similarity=similarity)
    assert similarity != "cosine" or values.max() <= 1
    prepared = Vectors(rows, similarity, what="rows", device=CPU)
    assert np.array_equal(values, nearest(rows, prepared, 3)[1])


@pytest.mark.parametrize(
    ("gallery", "device", "compared_on"),
    [
        (np.zeros((1, 2)), None, "cpu"),
        (torch.zeros(1, 2, device="meta"), None, "meta"),
        (torch.zeros(1, 2), "meta", "meta"),
        (torch.zeros(1, 2), "mps", "cpu"),  # Apple's GPU has no float64
        (torch.zeros(1, 2), torch.device("mps"), "cpu"),
    ],
)
def test_rows_are_compared_where_they_are_but_on_a_device_with_float64(gallery, device, compared_on):
    assert comparison_device(gallery, device).type == compared_on
