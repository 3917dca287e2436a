"""Laws that every loss in the table obeys. A new loss gets them by its line in `LOSSES`."""

import copy

import pytest
import torch
from torch.func import functional_call
from torch.nn import functional as F

from lookalike.errors import ArgumentError
from lookalike.losses import LOSSES
from lookalike.losses.build import build

from .cases import CASES, CLASSES, DIM, SETTINGS, call, problem

PROXIES = [case for case in CASES if problem(case).loss.proxy_loss is not None]
UNNORMALIZED = {"n_pairs"}  # by definition a loss of dot products
FIRST_PAIRS = {
    "n_pairs",
    "nearest_margin",
    "divide_and_conquer",
}  # of a class, the pairs first in the batch count
FORGETS_SAMPLES = {  # one pair per class; no triplet whose negative is nearest; no negative within the cutoff
    "n_pairs", "triplet_semihard", "nearest_margin", "divide_and_conquer",
}  # fmt: skip

every_case = pytest.mark.parametrize("case", CASES)


def turned_proxies(loss):
    """Proxies that live in the space of the embeddings (those of higher moments live in their own)."""
    return [
        p for name, p in loss.named_parameters() if name.endswith("proxies") and "order_losses.1" not in name
    ]


def test_every_loss_of_the_table_is_a_case():
    assert set(LOSSES) == {name for name, _ in SETTINGS.values()}


@every_case
def test_order_of_the_batch_does_not_matter(case):
    p = problem(case)
    order = torch.randperm(len(p.labels), generator=torch.Generator().manual_seed(1))
    if case in FIRST_PAIRS:
        order = torch.tensor([1, 0, 3, 2, 5, 4, 7, 6, 8, 9])  # the order within each class stays the same
    mixed = p.value(embeddings=p.embeddings[order], labels=p.labels[order], maps=p.maps[order])
    torch.testing.assert_close(mixed, p.value())


@every_case
def test_turning_embeddings_and_proxies_together_changes_nothing(case):
    p = problem(case)
    before = p.value()
    g = torch.Generator().manual_seed(2)
    turn, _ = torch.linalg.qr(torch.randn(DIM, DIM, generator=g, dtype=torch.float64))
    for proxies in turned_proxies(p.loss):
        proxies.data = proxies.data @ turn
    torch.testing.assert_close(p.value(embeddings=p.embeddings @ turn), before)


@every_case
def test_names_of_classes_do_not_matter(case):
    p = problem(case)
    before = p.value()
    new_name = torch.tensor([3, 0, 4, 1, 2])
    old_name = new_name.argsort()
    state = p.loss.state_dict()
    for name, tensor in state.items():
        if name.endswith("proxies") and len(tensor) % CLASSES == 0:
            state[name] = tensor.view(CLASSES, -1, DIM)[old_name].flatten(0, 1)
        if name in ("parent_0", "loss.beta"):
            state[name] = tensor[old_name]
    p.loss.load_state_dict(state)
    torch.testing.assert_close(p.value(labels=new_name[p.labels]), before)


@pytest.mark.parametrize("case", [case for case in CASES if case not in UNNORMALIZED])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_length_of_embeddings_does_not_matter(case, dtype):
    p = problem(case, dtype=dtype)
    lengths = torch.logspace(-30, 30, len(p.labels), dtype=dtype)[:, None]
    torch.testing.assert_close(p.value(embeddings=p.embeddings * lengths), p.value())


@every_case
def test_gradients_are_those_of_finite_differences(case):
    p = problem(case)
    names = [name for name, parameter in p.loss.named_parameters() if parameter.requires_grad]
    start = [p.loss.get_parameter(name).detach().clone().requires_grad_() for name in names]

    def value(embeddings, *parameters):
        batch = (embeddings, p.labels, *([p.maps] if p.loss.needs_feature_maps else []))
        return functional_call(p.loss, dict(zip(names, parameters, strict=True)), batch)

    inputs = (p.embeddings.clone().requires_grad_(), *start)
    assert torch.autograd.gradcheck(value, inputs, fast_mode=True)


@every_case
def test_a_small_step_lowers_the_loss_and_moves_the_proxies(case):
    p = problem(case)
    p.embeddings.requires_grad_()
    moved = [p.embeddings, *(q for q in p.loss.parameters() if q.requires_grad)]
    before = p.value()
    before.backward()
    length = torch.stack([q.grad.square().sum() for q in moved]).sum().sqrt()
    assert length > 0
    proxies = p.loss.proxy_loss.proxies.detach().clone() if p.loss.proxy_loss else None
    with torch.no_grad():
        for q in moved:
            q -= 1e-4 / length * q.grad
    assert p.value() < before
    if proxies is not None:
        assert not torch.equal(p.loss.proxy_loss.proxies, proxies)


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
def test_autocast_changes_nothing(case):
    p = problem(case, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = p.value()
    assert torch.equal(inside, p.value())


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


@pytest.mark.parametrize("case", [case for case in CASES if case not in FORGETS_SAMPLES])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_worst_case_is_finite_with_a_gradient_for_every_sample(case, dtype):
    p = problem(case, dtype=torch.float32)
    if p.loss.proxy_loss is not None:  # every sample nearly opposite to its own proxies
        proxies = p.loss.proxy_loss.proxies
        own = F.normalize(torch.randn(CLASSES, DIM, generator=torch.Generator().manual_seed(3)), dim=1)
        proxies.data = own.repeat_interleave(p.loss.proxy_loss.proxies_per_class, dim=0)
        worst = -own[p.labels]
    else:  # samples of one class are opposite, those of different classes at the same place
        worst = F.normalize(torch.ones(len(p.labels), DIM), dim=1) * torch.tensor([1.0, -1.0] * 5)[:, None]
    worst = (worst + 0.02 * p.embeddings).to(dtype).requires_grad_()
    value = p.value(embeddings=worst)
    value.backward()
    assert value.isfinite()
    assert worst.grad.isfinite().all()
    assert (worst.grad.abs().amax(dim=1) > 0).all()


@every_case
def test_a_batch_of_one_class_and_of_one_sample(case):
    p = problem(case)
    for labels in (torch.zeros_like(p.labels), p.labels[:1]):
        embeddings = p.embeddings[: len(labels)].clone().requires_grad_()
        value = p.value(embeddings=embeddings, labels=labels)
        value.backward()
        assert value.isfinite()
        assert embeddings.grad.isfinite().all()


@pytest.mark.parametrize("case", [case for case in CASES if "hierarchical" not in case])
def test_two_classes_are_enough(case):
    p = problem(case, classes=2)
    p.embeddings.requires_grad_()
    p.value().backward()
    assert p.embeddings.grad.isfinite().all()
    assert p.embeddings.grad.abs().sum() > 0


@pytest.mark.parametrize("case", PROXIES)
def test_an_embedding_of_zeros_or_on_its_proxy_has_a_finite_gradient(case):
    p = problem(case, dtype=torch.float32)
    for embeddings in (
        torch.zeros(CLASSES, DIM),
        p.loss.proxy_loss.proxies.detach().view(CLASSES, -1, DIM)[:, 0],
    ):
        embeddings = embeddings.clone().requires_grad_()
        p.loss.zero_grad()
        value = p.value(embeddings=embeddings, labels=torch.arange(CLASSES))
        value.backward()
        assert value.isfinite()
        assert embeddings.grad.isfinite().all()
        assert embeddings.grad.abs().max() < 1e4
        assert all(q.grad.isfinite().all() for q in p.loss.parameters() if q.grad is not None)


@pytest.mark.parametrize("case", PROXIES)
def test_length_of_proxies_does_not_matter(case):
    p = problem(case)
    before = p.value()
    if case == "hierarchical, means, several proxies":
        p.loss.train()  # nothing is due at the second step
    for proxies in turned_proxies(p.loss):
        proxies.data *= torch.logspace(-3, 3, len(proxies), dtype=torch.float64)[:, None]
    value = p.value()
    value.backward()
    torch.testing.assert_close(value, before)
    proxies = p.loss.proxy_loss.proxies
    along = (proxies.grad * proxies).sum(dim=1) / proxies.norm(dim=1)
    torch.testing.assert_close(along, torch.zeros_like(along), atol=1e-9, rtol=0)


@every_case
def test_a_saved_state_gives_the_same_loss_again(case, tmp_path):
    p = problem(case)
    torch.save(p.loss.state_dict(), tmp_path / "loss.pt")
    other = problem(case, seed=7)
    if p.loss.proxy_loss is not None:
        assert not torch.equal(other.value(embeddings=p.embeddings, maps=p.maps), p.value())
    other.loss.load_state_dict(torch.load(tmp_path / "loss.pt", weights_only=True))
    assert torch.equal(other.value(embeddings=p.embeddings, maps=p.maps), p.value())


@every_case
def test_a_generator_decides_the_start_and_the_global_one_is_left_alone(case):
    name, settings = SETTINGS[case]
    before = torch.get_rng_state()
    first, second = (
        build(LOSSES[name], CLASSES, DIM, settings, torch.Generator().manual_seed(5)) for _ in range(2)
    )
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
    p = problem(case)
    p.loss.train()
    p.value().item()
    if "horde" not in case:  # whose layers are made by torch first, and drawn again from the generator
        assert torch.equal(torch.get_rng_state(), before)


@every_case
def test_parameters_are_float32_whatever_the_default_dtype(case):
    name, settings = SETTINGS[case]
    torch.set_default_dtype(torch.float64)
    try:
        loss = LOSSES[name](CLASSES, DIM, **settings)
    finally:
        torch.set_default_dtype(torch.float32)
    if loss.proxy_loss is not None:
        assert loss.proxy_loss.proxies.dtype == torch.float32


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
