"""`nearest` against sorting everything, with ties, copies, own rows and every block size."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import ArgumentError
from lookalike.ranking import nearest

BLOCKS = (1, 3, 1000)


def slow_nearest(queries, gallery, k, own, similarity):
    """Every similarity in float64, sorted by (most similar, lowest index)."""
    indices = []
    for q, query in enumerate(queries.astype(np.float64)):
        scored = []
        for g, row in enumerate(gallery.astype(np.float64)):
            if own is not None and own[q] == g:
                continue
            value = float(query @ row) if similarity == "dot" else -float(((query - row) ** 2).sum())
            scored.append((-value, g))
        indices.append([g for _, g in sorted(scored)[:k]])
    return np.array(indices)


def whole_numbers(draw, rows, dim):
    """Few small integers, so that copies and ties abound and float64 arithmetic has no rounding."""
    values = draw(st.lists(st.integers(-2, 2), min_size=rows * dim, max_size=rows * dim))
    return np.array(values, dtype=np.float32).reshape(rows, dim)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_equals_sorting_everything(data):
    queries = whole_numbers(data.draw, data.draw(st.integers(1, 6)), 2)
    gallery = whole_numbers(data.draw, data.draw(st.integers(1, 25)), 2)
    k = data.draw(st.integers(1, 30))
    similarity = data.draw(st.sampled_from(["dot", "euclidean"]))
    block = data.draw(st.sampled_from(BLOCKS))
    found, values = nearest(
        queries, gallery, k, similarity=similarity, query_block=block, gallery_block=block
    )
    expected = slow_nearest(queries, gallery, k, None, similarity)
    assert found.dtype == np.int64
    assert found.tolist() == expected.tolist()
    assert (np.diff(values, axis=1) <= 0).all()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_own_row_is_removed_by_position_and_only_that(data):
    rows = whole_numbers(data.draw, data.draw(st.integers(2, 20)), 2)
    own = np.arange(len(rows))
    k = data.draw(st.integers(1, 25))
    block = data.draw(st.sampled_from(BLOCKS))
    found, _ = nearest(
        rows, rows, k, self_index=own, similarity="dot", query_block=block, gallery_block=block
    )
    assert found.tolist() == slow_nearest(rows, rows, k, own, "dot").tolist()


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_bitwise_the_same_whatever_the_blocks(similarity):
    rows = np.random.default_rng(0).normal(size=(300, 33)).astype(np.float32)
    rows[40:80] = rows[:40]
    reference = nearest(rows, rows, 12, self_index=np.arange(300), similarity=similarity)
    for query_block, gallery_block in [(1, 1000), (3, 7), (1000, 1), (64, 128)]:
        again = nearest(
            rows,
            rows,
            12,
            self_index=np.arange(300),
            similarity=similarity,
            query_block=query_block,
            gallery_block=gallery_block,
        )
        assert np.array_equal(reference[0], again[0])
        assert np.array_equal(reference[1], again[1])


def test_many_copies_of_one_row_come_in_order_of_index():
    gallery = np.tile(np.array([[0.3, 0.4, 0.5]], dtype=np.float32), (100, 1))
    found, values = nearest(gallery[:2], gallery, 5, gallery_block=7)
    assert found.tolist() == [[0, 1, 2, 3, 4]] * 2
    assert values == pytest.approx(np.ones((2, 5)), abs=1e-6)


def test_k_is_clipped_to_what_can_be_found():
    rows = np.eye(3, dtype=np.float32)
    assert nearest(rows, rows, 5)[0].shape == (3, 3)
    assert nearest(rows, rows, 5, self_index=[0, 1, 2])[0].shape == (3, 2)


def test_similarities_mean_what_they_say():
    queries, gallery = torch.tensor([[3.0, 4.0]]), torch.tensor([[6.0, 8.0], [0.0, 5.0]])
    assert nearest(queries, gallery, 2)[1][0] == pytest.approx([1.0, 0.8])
    assert nearest(queries, gallery, 2, similarity="dot")[1][0] == pytest.approx([50.0, 20.0])
    indices, values = nearest(queries, gallery, 2, similarity="euclidean")
    assert indices[0].tolist() == [1, 0]
    assert values[0] == pytest.approx([-(10**0.5), -5.0])


def test_half_precision_and_double_are_taken_and_left_alone():
    rows = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        part = rows.to(dtype)
        before = part.clone()
        nearest(part, part, 3, self_index=np.arange(20))
        assert part.dtype == dtype
        assert torch.equal(part, before)


def test_refusals_name_the_row_and_the_shape():
    rows = np.ones((5, 2), dtype=np.float32)
    bad = rows.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ArgumentError, match=r"1 of 5 gallery embeddings are not finite.*first: row 3"):
        nearest(rows, bad, 1)
    with pytest.raises(ArgumentError, match="query embeddings have 3 dimensions, gallery embeddings 2"):
        nearest(np.ones((2, 3), dtype=np.float32), rows, 1)
    with pytest.raises(ArgumentError, match="k is 0"):
        nearest(rows, rows, 0)
    with pytest.raises(ArgumentError, match="did you mean 'cosine'"):
        nearest(rows, rows, 1, similarity="cosin")
    with pytest.raises(ArgumentError, match="self_index has shape"):
        nearest(rows, rows, 1, self_index=[0])
