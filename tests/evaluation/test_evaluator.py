"""`evaluate` against plain loops, hand-worked cases, and the promises about counting."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import ArgumentError
from lookalike.evaluation import evaluate

from .slow import one_query


def whole_numbers(draw, rows, dim):
    """Few small integers: copies and ties abound, and float64 arithmetic has no rounding."""
    values = draw(st.lists(st.integers(-2, 2), min_size=rows * dim, max_size=rows * dim))
    return np.array(values, dtype=np.float32).reshape(rows, dim)


def compare(result, queries, labels, owns, gallery, gallery_labels, ks, similarity, ties):
    """Every per-query value equals the loops; lone queries are NaN."""
    for q in range(len(queries)):
        expected = one_query(queries[q], labels[q], owns[q], gallery, gallery_labels, ks, similarity, ties)
        for key, values in result.per_query.items():
            if expected is None:
                assert np.isnan(values[q])
            else:
                assert values[q] == pytest.approx(expected[key], abs=1e-12), (key, q)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_self_retrieval_equals_loops(data):
    rows = whole_numbers(data.draw, data.draw(st.integers(2, 14)), 2)
    labels = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows))))
    similarity = data.draw(st.sampled_from(["dot", "euclidean"]))
    ties = data.draw(st.sampled_from(["index", "optimistic", "pessimistic"]))
    block = data.draw(st.sampled_from([1, 3, 1000]))
    result = evaluate(
        rows, labels, ks=(1, 3, 30), similarity=similarity, ties=ties, query_block=block, gallery_block=block
    )
    compare(result, rows, labels, range(len(rows)), rows, labels, (1, 3, 30), similarity, ties)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_query_and_gallery_equal_loops(data):
    gallery = whole_numbers(data.draw, data.draw(st.integers(1, 12)), 2)
    queries = whole_numbers(data.draw, data.draw(st.integers(1, 6)), 2)
    gallery_labels = np.array(
        data.draw(st.lists(st.integers(0, 2), min_size=len(gallery), max_size=len(gallery)))
    )
    labels = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(queries), max_size=len(queries))))
    block = data.draw(st.sampled_from([1, 3, 1000]))
    result = evaluate(
        queries,
        labels,
        gallery_embeddings=gallery,
        gallery_labels=gallery_labels,
        ks=(1, 2, 40),
        similarity="dot",
        query_block=block,
        gallery_block=block,
    )
    compare(
        result, queries, labels, [None] * len(queries), gallery, gallery_labels, (1, 2, 40), "dot", "index"
    )


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_expected_order_of_ties_equals_the_mean_over_all_orders(data):
    rows = whole_numbers(data.draw, data.draw(st.integers(3, 6)), 1)
    labels = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(rows), max_size=len(rows))))
    result = evaluate(rows, labels, ks=(1, 2), similarity="dot", ties="expected")
    compare(result, rows, labels, range(len(rows)), rows, labels, (1, 2), "dot", "expected")


def test_a_copy_of_the_query_is_not_the_query():
    """Each image stored three times with labels 0, 0, 1: the right copy is found, the own row never."""
    image = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    rows = np.repeat(image, 3, axis=0)
    labels = np.array([[2 * i, 2 * i, 2 * i + 1] for i in range(4)]).ravel()
    worst = evaluate(rows, labels, ks=(1, 2), ties="pessimistic")
    best = evaluate(rows, labels, ks=(1, 2), ties="optimistic")
    mean = evaluate(rows, labels, ks=(1, 2), ties="expected")
    assert (worst.recall_at_1, worst.recall_at_2) == (0.0, 1.0)
    assert best.recall_at_1 == 1.0
    assert mean.recall_at_1 == pytest.approx(0.5)
    assert best.counts["lone"] == 4
    assert best.counts["tied_queries"] == 8
    assert best.counts["duplicates"] == 8


def test_lone_queries_are_left_out_and_named():
    rows = np.eye(4, dtype=np.float32) + 0.1
    labels = [0, 0, 1, 2]
    result = evaluate(rows, labels, class_names=["ash", "beech", "cedar"])
    assert result.counts["scored"] == 2
    assert result.counts["lone"] == 2
    assert result.counts["lone_classes"] == ["beech", "cedar"]
    assert "2 of 4 queries have nothing to find (2 classes): left out" in result.notes
    assert evaluate(rows, labels, lone="miss").recall_at_8 == pytest.approx(result.recall_at_8 / 2)


def test_k_beyond_the_gallery_is_clipped_and_said():
    rows = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    result = evaluate(rows, np.arange(10) % 2, ks=(1, 50))
    assert result.counts["clipped_k"] == {"50": 9}
    assert result.recall_at_50 == 1.0
    assert result.precision_at_50 == pytest.approx(4 / 9)
    assert any("K = 50" in note for note in result.notes)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(1, 5))
def test_nothing_lies_outside_zero_to_one(seed, count, classes):
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(count, 3)).astype(np.float32)
    result = evaluate(rows, generator.integers(0, classes, count), ks=(1, 5, 100))
    for values in result.per_query.values():
        known = values[~np.isnan(values)]
        assert ((known >= 0) & (known <= 1)).all()


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_bitwise_the_same_whatever_the_blocks(similarity):
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(150, 48)).astype(np.float32) * 0.05 + 1
    rows[100:130] = rows[:30]
    labels = generator.integers(0, 30, 150)
    reference = evaluate(rows, labels, similarity=similarity)
    for query_block, gallery_block in [(1, 1000), (3, 17), (1000, 3), (7, 7), (64, 64)]:
        again = evaluate(
            rows, labels, similarity=similarity, query_block=query_block, gallery_block=gallery_block
        )
        assert again.to_dict() == reference.to_dict()
        for key, values in reference.per_query.items():
            assert np.array_equal(values, again.per_query[key], equal_nan=True)


def test_masks_and_row_numbers_select_queries_and_gallery():
    generator = np.random.default_rng(2)
    rows, labels = generator.normal(size=(30, 4)).astype(np.float32), generator.integers(0, 5, 30)
    asks = np.arange(30) < 12
    by_mask = evaluate(rows, labels, query=asks)
    by_rows = evaluate(rows, labels, query=np.arange(12))
    assert by_mask.to_dict() == by_rows.to_dict()
    apart = evaluate(rows, labels, query=asks, gallery=~asks)
    other = evaluate(rows[asks], labels[asks], gallery_embeddings=rows[~asks], gallery_labels=labels[~asks])
    assert apart.values == other.values


def test_reference_values(oracles):
    """Values checked against another implementation; lone queries count as misses in its Recall@K."""
    for case in oracles["metrics"]:
        embeddings, labels = np.array(case["embeddings"]), np.array(case["labels"])
        if "queries" in case:
            asked = {"gallery_embeddings": embeddings, "gallery_labels": labels}
            embeddings, labels = np.array(case["queries"]), np.array(case["query_labels"])
        else:
            asked = {}
        left_out, missed = (evaluate(embeddings, labels, lone=lone, **asked) for lone in ("exclude", "miss"))
        expected = case["expected"]
        for k in (1, 2, 4, 8):
            if f"R@{k}" in expected:
                assert missed[f"recall_at_{k}"] == pytest.approx(expected[f"R@{k}"], abs=1e-12)
        assert left_out.r_precision == pytest.approx(expected["R-precision"], abs=1e-12)
        assert left_out.map_at_r == pytest.approx(expected["MAP@R"], abs=1e-12)
        assert left_out.counts["scored"] == expected["queries_scored"]
        reference = case["pml_AccuracyCalculator"]
        assert left_out.precision_at_1 == pytest.approx(reference["precision_at_1"], abs=1e-12)


def test_cosine_ignores_length_and_euclidean_does_not():
    rows = np.array([[1, 0], [10, 0], [0.9, 0.9], [10, 1]], dtype=np.float32)
    labels = [0, 0, 1, 1]
    assert evaluate(rows, labels, ks=(1,), query=[0]).recall_at_1 == 1.0
    assert evaluate(rows, labels, ks=(1,), query=[0], similarity="euclidean").recall_at_1 == 0.0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_every_precision_is_taken_and_left_alone(dtype):
    rows = torch.randn(40, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    before = rows.clone()
    result = evaluate(rows, torch.arange(40) % 6)
    assert torch.equal(rows, before)
    assert 0 <= result.recall_at_1 <= 1


def test_precision_that_the_program_allows_elsewhere_changes_nothing():
    generator = np.random.default_rng(3)
    rows = torch.from_numpy(generator.normal(size=(300, 64)).astype(np.float32))
    labels = generator.integers(0, 60, 300)
    expected = evaluate(rows, labels).to_dict()
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert evaluate(rows, labels).to_dict() == expected
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_refusals():
    rows = np.ones((5, 2), dtype=np.float32)
    bad = rows.copy()
    bad[2] = np.inf
    with pytest.raises(ArgumentError, match=r"1 of 5 embeddings are not finite.*first: row 2"):
        evaluate(bad, [0] * 5)
    with pytest.raises(ArgumentError, match=r"labels has shape \(4,\); expected \(5,\)"):
        evaluate(rows, [0] * 4)
    with pytest.raises(ArgumentError, match="labels has dtype float64"):
        evaluate(rows, np.zeros(5))
    with pytest.raises(ArgumentError, match="did you mean 'expected'"):
        evaluate(rows, [0] * 5, ties="expect")
    with pytest.raises(ArgumentError, match="at least one K"):
        evaluate(rows, [0] * 5, ks=(0, 1))
    with pytest.raises(ArgumentError, match="belong together"):
        evaluate(rows, [0] * 5, gallery_embeddings=rows)
    with pytest.raises(ArgumentError, match="query names row 7 of 5"):
        evaluate(rows, [0] * 5, query=[7])
    with pytest.raises(ArgumentError, match="row twice"):
        evaluate(rows, [0] * 5, query=[1, 1])
    with pytest.raises(ArgumentError, match="selects no rows"):
        evaluate(rows, [0] * 5, query=np.zeros(5, dtype=bool))


def test_labels_stay_whole_numbers_beyond_float_precision():
    """Two labels that float64 cannot tell apart are two classes."""
    big = 2**53
    rows = np.eye(4, dtype=np.float32) + 0.1
    result = evaluate(rows, np.array([big, big + 1, big, big + 1]), ks=(1,))
    assert result.counts["classes"] == 2
    assert result.labels.dtype == np.int64
