"""`evaluate` against plain loops, hand-worked cases, and the promises about counting."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import ArgumentError
from lookalike.evaluation import evaluate
from lookalike.evaluation.per_query import measure_queries
from lookalike.ranking import SIMILARITIES

from .slow import one_query


def whole_numbers(draw, rows, dim):
    """Few small integers: copies and ties abound, and float64 arithmetic has no rounding."""
    values = draw(st.lists(st.integers(-2, 2), min_size=rows * dim, max_size=rows * dim))
    return np.array(values, dtype=np.float32).reshape(rows, dim)


def compare(result, queries, labels, owns, gallery, gallery_labels, ks, similarity):
    """Every per-query value equals the loops; queries without a match are NaN."""
    for q in range(len(queries)):
        expected = one_query(queries[q], labels[q], owns[q], gallery, gallery_labels, ks, similarity)
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
    block = data.draw(st.sampled_from([1, 3, 1000]))
    result = evaluate(
        rows, labels, ks=(1, 3, 30), similarity=similarity, query_block=block, gallery_block=block
    )
    compare(result, rows, labels, range(len(rows)), rows, labels, (1, 3, 30), similarity)


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
    compare(result, queries, labels, [None] * len(queries), gallery, gallery_labels, (1, 2, 40), "dot")


def test_a_copy_of_the_query_is_not_the_query():
    """Each image stored three times with labels 0, 1, 0: the copy is retrieved, the own row never."""
    image = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    rows = np.repeat(image, 3, axis=0)
    labels = np.array([[2 * i, 2 * i + 1, 2 * i] for i in range(4)]).ravel()
    result = evaluate(rows, labels, ks=(1, 2))
    # the other copy of label 0 is as similar as the negative, which comes first for the third row only
    assert result.per_query["recall_at_1"].reshape(4, 3)[:, [0, 2]].tolist() == [[0.0, 1.0]] * 4
    assert result.recall_at_2 == 1.0
    assert result.counts["no_match"] == 4
    assert result.counts["tied_queries"] == 8
    assert result.counts["duplicates"] == 8


def test_singletons_are_left_out_and_named():
    rows = np.eye(4, dtype=np.float32) + 0.1
    labels = [0, 0, 1, 2]
    result = evaluate(rows, labels, class_names=["ash", "beech", "cedar"])
    assert result.counts["scored"] == 2
    assert result.counts["no_match"] == 2
    assert result.counts["no_match_classes"] == ["beech", "cedar"]
    assert "2 of 4 queries have no match in the gallery (2 classes): left out" in result.notes
    assert evaluate(rows, labels, no_match="miss").recall_at_8 == pytest.approx(result.recall_at_8 / 2)


def test_nothing_to_retrieve_has_no_value_and_null_in_json(tmp_path):
    result = evaluate(np.eye(4), range(4))
    assert np.isnan(result.recall_at_1)
    assert json.loads(result.save(tmp_path / "lone").read_text())["recall_at_1"] is None
    assert any("no query has a match" in note for note in result.notes)


def test_rows_with_the_ignored_label_are_neither_queries_nor_gallery():
    """Junk rows that lie in pairs would retrieve each other, and hide the rows of people."""
    generator = np.random.default_rng(0)
    people = np.repeat(np.arange(1, 11), 4)
    rows = generator.normal(size=(11, 6))[people] + generator.normal(size=(40, 6))
    junk = np.repeat(generator.normal(size=(15, 6)), 2, axis=0)
    clean = evaluate(rows, people)
    mixed, labels = np.concatenate([junk, rows]), np.concatenate([np.full(30, -1), people])
    result = evaluate(mixed, labels, ignore_labels=[-1])
    assert result.values == clean.values
    assert result.counts["ignored"] == {"queries": 30, "gallery": 30}
    assert result.rows.tolist() == list(range(30, 70))
    with pytest.raises(
        ArgumentError, match=r"below 0 in 30 rows \(first: row 0, label -1\).*--ignore-label=-1"
    ):
        evaluate(mixed, labels)
    with pytest.raises(ArgumentError, match="every query row has an ignored label"):
        evaluate(junk, np.full(30, -1), ignore_labels=[-1])


def test_a_gallery_that_holds_the_queries_is_mentioned():
    rows, labels = np.random.default_rng(0).normal(size=(20, 4)), np.arange(20) % 5
    result = evaluate(rows, labels, gallery_embeddings=rows, gallery_labels=labels)
    assert result.recall_at_1 == 1.0
    assert any("20 of 20 queries have an exact copy in the separate gallery" in note for note in result.notes)
    assert "a separate gallery of 20" in result.summary()
    assert "each query's own row left out" in evaluate(rows, labels).summary()


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
    """Values checked against another implementation; queries without a match are misses in its Recall@K."""
    for case in oracles["metrics"]:
        embeddings, labels = np.array(case["embeddings"]), np.array(case["labels"])
        if "queries" in case:
            asked = {"gallery_embeddings": embeddings, "gallery_labels": labels}
            embeddings, labels = np.array(case["queries"]), np.array(case["query_labels"])
        else:
            asked = {}
        left_out, missed = (
            evaluate(embeddings, labels, no_match=word, **asked) for word in ("exclude", "miss")
        )
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


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("tied", [False, True])
def test_every_tensor_is_made_on_the_device_of_the_comparison(similarity, tied):
    """On a GPU one that is made on the default device would stop the evaluation; here the default has no numbers."""
    draws = np.random.default_rng(0)
    embeddings = draws.normal(size=(60, 4)).round(0 if tied else 8)
    labels = draws.integers(0, 6, size=60)
    options = {"similarity": similarity, "open_set": True, "clustering": True, "gallery_block": 7}
    wanted = evaluate(embeddings, labels, **options)
    with torch.device("meta"):
        found = evaluate(embeddings, labels, device="cpu", **options)
    assert found.to_dict() == wanted.to_dict()


def test_a_result_shows_its_values_and_not_its_arrays():
    result = evaluate(np.eye(4), [0, 0, 1, 2])
    assert repr(result).startswith("<RetrievalResult: recall_at_1 ")
    assert repr(result).endswith(" (percent), 4 queries>")
    assert len(repr(result)) < 200


def test_a_gpu_that_is_nearly_full_is_not_filled(monkeypatch):
    draws = np.random.default_rng(0)
    embeddings, labels = draws.normal(size=(300, 64)), draws.integers(0, 20, size=300)
    wanted = evaluate(embeddings, labels)
    bounds = []

    def measured(*arguments, memory_mb, **options):
        bounds.append(memory_mb)
        return measure_queries(*arguments, memory_mb=memory_mb, **options)

    monkeypatch.setattr("lookalike.evaluation.evaluator.measure_queries", measured)
    monkeypatch.setattr("lookalike.evaluation.evaluator.free_memory_mb", lambda device: 4.0)
    assert evaluate(embeddings, labels).to_dict() == wanted.to_dict()
    assert bounds[0] <= 2
