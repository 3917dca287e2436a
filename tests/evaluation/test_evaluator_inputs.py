"""What `evaluate` accepts as labels and embeddings, and what it refuses."""

import numpy as np
import pytest
import torch

from lookalike.data.samplers import BalancedBatches
from lookalike.errors import ArgumentError
from lookalike.evaluation import evaluate


@pytest.mark.parametrize("dtype", ["i1", "<i2", ">i4", ">i8", "u1", "<u8", ">u4"])
def test_labels_of_every_integer_type_and_byte_order(dtype):
    rows, labels = np.random.default_rng(0).normal(size=(20, 4)), np.arange(20) % 5
    assert evaluate(rows, labels.astype(dtype)).to_dict() == evaluate(rows, labels).to_dict()


@pytest.mark.parametrize("dtype", [">f4", ">f8", "<f2", "g", "i2", ">i8"])
def test_embeddings_of_every_byte_order_and_whole_numbers(dtype):
    rows, labels = np.random.default_rng(0).integers(-5, 5, size=(20, 4)), np.arange(20) % 5
    assert evaluate(rows.astype(dtype), labels).values == evaluate(rows.astype("f4"), labels).values


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
    with pytest.raises(ArgumentError, match="did you mean 'exclude'"):
        evaluate(rows, [0] * 5, no_match="exclud")
    with pytest.raises(ArgumentError, match="at least one K"):
        evaluate(rows, [0] * 5, ks=(0, 1))
    with pytest.raises(ArgumentError, match="belong together"):
        evaluate(rows, [0] * 5, gallery_embeddings=rows)
    with pytest.raises(ArgumentError, match="query has row 7, but there are 5 rows"):
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


@pytest.mark.parametrize("labels", [["a", "b", "a", "b"], [0.0, 1.0, 0.0, 1.0]])
def test_names_are_refused_with_the_call_that_numbers_them(labels):
    for complain in (
        lambda: evaluate(np.eye(4), labels),
        lambda: BalancedBatches(labels, classes=2, per_class=2),
    ):
        with pytest.raises(ArgumentError, match=r"numpy\.unique\(labels, return_inverse=True\)\[1\]"):
            complain()
