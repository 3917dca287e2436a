"""What every loss accepts as labels and embeddings, and what it refuses."""

import copy

import pytest
import torch

from lookalike.errors import ArgumentError
from lookalike.losses import LOSSES

from .cases import CLASSES, DIM, SETTINGS, call, every_case, problem


@every_case
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_input_is_computed_in_float32_and_leaves_the_proxies_alone(case, dtype):
    p = problem(case, dtype=torch.float32)
    state = copy.deepcopy(p.loss.state_dict())
    half = p.embeddings.to(dtype).requires_grad_()
    value = p.value(embeddings=half, maps=p.maps.to(dtype))
    value.backward()
    assert value.dtype == torch.float32
    assert half.grad.isfinite().all()
    torch.testing.assert_close(value, p.value(embeddings=half.float(), maps=p.maps.to(dtype).float()))
    for name, tensor in p.loss.state_dict().items():
        assert tensor.dtype == state[name].dtype
        assert torch.equal(tensor, state[name])


@every_case
def test_float64_stays_float64_with_float32_proxies(case):
    p = problem(case, dtype=torch.float32)
    value = p.value(embeddings=p.embeddings.double(), maps=p.maps.double())
    assert value.dtype == torch.float64
    assert all(q.dtype == torch.float32 for q in p.loss.parameters())


@every_case
def test_labels_may_have_any_integer_type_and_byte_order(case):
    p = problem(case)
    expected = p.value()
    signed = [torch.int8, torch.int16, torch.int32, torch.int64]
    for dtype in [torch.uint8, torch.uint16, torch.uint32, torch.uint64, *signed]:
        assert torch.equal(p.value(labels=p.labels.to(dtype)), expected)
    for code in (
        "u1",
        "i1",
        *(order + kind for order in "<>" for kind in ("u2", "i2", "u4", "i4", "u8", "i8")),
    ):
        assert torch.equal(p.value(labels=p.labels.numpy().astype(code)), expected)


@every_case
@pytest.mark.parametrize("label", [2**53 + 1, 2**63 - 1, 2**64 - 1, -(2**63)])
def test_large_labels_are_refused_to_the_last_digit(case, label):
    p = problem(case)
    labels = p.labels.numpy().astype(">u8" if label > 0 else ">i8")
    labels[2] = label
    for given in (labels, torch.from_numpy(labels.astype("u8" if label > 0 else "i8"))):
        with pytest.raises(ArgumentError, match=f"label {label} is not in 0..4 .* first bad sample index 2;"):
            p.value(labels=given)


def test_arrays_of_other_kinds_are_no_labels():
    p = problem("proxy_anchor")
    for kind in ("f8", "?", "U3", "O"):
        with pytest.raises(ArgumentError, match="expected integers"):
            p.value(labels=p.labels.numpy().astype(kind))


@every_case
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 2, 3, 0, 1, 9, 3, 0, 1], r"label 9 is not in 0\.\.4 .* first bad sample index 6"),
        ([0, 1, -1, 3, 0, 1, 2, 3, 0, 1], r"label -1 is not in 0\.\.4 .* first bad sample index 2"),
        ([0, 1, 2], r"labels have shape \(3,\); expected \(10,\)"),
        ([0.0] * 10, "labels have dtype torch.float32; expected integers"),
        ([True] * 10, "labels have dtype torch.bool; expected integers"),
    ],
)
def test_invalid_labels_are_refused(case, labels, message):
    with pytest.raises(ArgumentError, match=message):
        problem(case).value(labels=torch.tensor(labels))


@every_case
def test_invalid_embeddings_are_refused(case):
    p = problem(case)
    bad = p.embeddings.clone()
    bad[3, 0] = torch.nan
    for embeddings, message in [
        (bad, "not finite in 1 of 10 samples; first bad sample index 3"),
        (p.embeddings[:, :2], r"embeddings have shape \(10, 2\); expected \(B, 4\)"),
        (p.embeddings.long(), "embeddings have dtype torch.int64; expected a floating dtype"),
        (p.embeddings[:0], "with B at least 1"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            p.value(embeddings=embeddings, labels=p.labels[: len(embeddings)])
    with pytest.raises(ArgumentError, match="two tensors"):
        call(p.loss, p.embeddings.numpy(), p.labels, p.maps)


@every_case
def test_invalid_sizes_are_refused(case):
    name, settings = SETTINGS[case]
    with pytest.raises(ArgumentError, match="num_classes is 1; it must be at least 2"):
        LOSSES[name](1, DIM, **settings)
    with pytest.raises(ArgumentError, match="embedding_dim is 0; it must be at least 1"):
        LOSSES[name](CLASSES, 0, **settings)
