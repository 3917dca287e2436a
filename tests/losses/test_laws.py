"""Laws that every loss in the table obeys. A new loss gets them by its line in `LOSSES`."""

import pytest
import torch
from torch.func import functional_call
from torch.nn import functional as F

from lookalike.losses import LOSSES
from lookalike.losses.build import build

from .cases import CASES, CLASSES, DIM, SETTINGS, every_case, problem

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
def test_autocast_changes_nothing(case):
    p = problem(case, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = p.value()
    assert torch.equal(inside, p.value())


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
