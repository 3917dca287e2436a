"""Sampled classes: own classes are always in, and what is promised about expected values holds."""

import pytest
import torch
from torch import Tensor

from lookalike.errors import ArgumentError
from lookalike.losses.norm_softmax import NormSoftmax
from lookalike.losses.sampled import Sampled, sample_classes
from lookalike.losses.soft_triple import SoftTriple
from lookalike.optim.row_sparse import RowSparseAdamW

CLASSES, DIM = 60, 5
BASES = {
    "proxy_anchor": "proxy_anchor",
    "proxy_nca": "proxy_nca",
    "norm_softmax": "norm_softmax",
    "arc_face": "arc_face",
    "soft_triple": {"name": "soft_triple", "settings": {"centers_per_class": 3}},
}


def build(base, **settings) -> Sampled:
    generator = torch.Generator().manual_seed(1)
    settings = {"fraction": 0.4, **settings}
    return Sampled(CLASSES, DIM, base=base, generator=generator, **settings).double()


def batch(size: int = 8) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    embeddings = torch.randn(size, DIM, generator=generator, dtype=torch.float64).requires_grad_()
    return embeddings, torch.randint(0, 12, (size,), generator=generator)


@pytest.mark.parametrize("fraction", [0.0, 0.1, 1.0])
def test_the_sample_holds_the_classes_of_the_batch_and_about_its_fraction_of_the_others(fraction):
    labels = torch.tensor([999, 3, 3, 500])
    sizes = []
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        classes, present = sample_classes(labels, 1000, fraction, generator)
        assert torch.equal(classes, classes.unique())
        assert classes[present].tolist() == [3, 500, 999]
        sizes.append(len(classes) - 3)
    assert sum(sizes) / 20 == pytest.approx(997 * fraction, abs=8)


@pytest.mark.parametrize("base", BASES)
def test_a_fraction_of_one_is_the_base_loss(base):
    loss = build(BASES[base], fraction=1.0)
    embeddings, labels = batch()
    parameters = (embeddings, loss.base.proxies)
    sampled = torch.autograd.grad(loss(embeddings, labels), parameters)
    whole = torch.autograd.grad(loss.base(embeddings, labels), parameters)
    for ours, theirs in zip(sampled, whole, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("base", BASES)
def test_evaluation_mode_takes_all_classes(base):
    loss = build(BASES[base]).eval()
    embeddings, labels = batch()
    assert torch.equal(loss(embeddings, labels), loss.base(embeddings, labels))
    assert loss.iteration == 0


def mean_over_draws(loss: Sampled, draws: int) -> tuple[Tensor, Tensor, Tensor]:
    """Mean value, mean gradient of the proxies, and the standard error of the value."""
    embeddings, labels = batch()
    values, gradient = [], torch.zeros_like(loss.base.proxies)
    for _ in range(draws):
        value = loss(embeddings, labels)
        gradient += torch.autograd.grad(value, loss.base.proxies)[0] / draws
        values.append(value.detach())
    spread = torch.stack(values)
    return spread.mean(), gradient, spread.std() / draws**0.5


def test_proxy_anchor_is_unbiased_in_value_and_gradient():
    loss = build("proxy_anchor")
    value, gradient, error = mean_over_draws(loss, 800)
    embeddings, labels = batch()
    whole = loss.base(embeddings, labels)
    (exact,) = torch.autograd.grad(whole, loss.base.proxies)
    assert abs(float(value - whole.detach())) < 4 * float(error)
    assert float((gradient - exact).norm() / exact.norm()) < 0.06


def test_the_regularizer_of_soft_triple_is_unbiased():
    """Of two losses that differ in the regularizer's weight, the difference is the regularizer."""
    base = {"name": "soft_triple", "settings": {"centers_per_class": 3, "center_weight": 0.0}}
    without, with_it = build(base), build(BASES["soft_triple"])
    embeddings, labels = batch()
    parts = torch.stack(
        [(with_it(embeddings, labels) - without(embeddings, labels)).detach() for _ in range(400)]
    )
    exact = (with_it.base(embeddings, labels) - without.base(embeddings, labels)).detach()
    assert abs(float(parts.mean() - exact)) < 4 * float(parts.std()) / 20


def test_softmax_is_nearly_unbiased_when_corrected_and_low_when_not():
    """Uncorrected, a sum over 0.4 of the classes is log(1/0.4) low where all classes are alike."""
    embeddings, labels = batch()
    settings = {"temperature": 0.5}
    bases = [NormSoftmax(CLASSES, DIM, **settings, generator=torch.Generator().manual_seed(3)) for _ in "ab"]
    corrected, plain = (
        Sampled(CLASSES, DIM, base=base, fraction=0.4, corrected=flag).double()
        for base, flag in zip(bases, (True, False), strict=True)
    )
    exact = float(corrected.base(embeddings, labels).detach())
    assert float(mean_over_draws(corrected, 300)[0]) == pytest.approx(exact, abs=0.05)
    assert float(mean_over_draws(plain, 300)[0]) == pytest.approx(exact - 0.75, abs=0.15)


@pytest.mark.parametrize("base", BASES)
def test_sparse_gradients_hold_the_rows_that_took_part(base):
    dense, sparse = build(BASES[base]), build(BASES[base], sparse_gradients=True)
    embeddings, labels = batch()
    dense(embeddings, labels).backward()
    sparse(embeddings, labels).backward()
    gradient = sparse.base.proxies.grad
    assert gradient.is_sparse
    assert len(gradient._indices()[0]) < 0.7 * len(sparse.base.proxies)
    assert torch.equal(gradient.to_dense(), dense.base.proxies.grad)


def test_draws_depend_on_seed_and_step_only_and_continue_after_loading():
    embeddings, labels = batch()
    one, other, third = build("proxy_anchor"), build("proxy_anchor"), build("proxy_anchor", seed=1)
    torch.manual_seed(5)
    first = [one(embeddings, labels) for _ in range(3)]
    assert torch.equal(first[0], other(embeddings, labels))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], third(embeddings, labels))
    resumed = build("proxy_anchor")
    resumed.load_state_dict(other.state_dict())
    assert torch.equal(first[1], resumed(embeddings, labels))


def test_training_with_sampled_classes_and_sparse_steps_lowers_the_whole_loss():
    loss = build("norm_softmax", sparse_gradients=True)
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(CLASSES, DIM, generator=generator, dtype=torch.float64)
    optimizer = RowSparseAdamW(loss.parameters(), lr=0.05)
    before = loss.eval()(centers, torch.arange(CLASSES)).detach()
    loss.train()
    for _ in range(60):
        labels = torch.randint(0, CLASSES, (16,), generator=generator)
        optimizer.zero_grad()
        loss(centers[labels], labels).backward()
        optimizer.step()
    assert float(loss.eval()(centers, torch.arange(CLASSES)).detach()) < 0.5 * float(before)


def test_refusals():
    with pytest.raises(ArgumentError, match="20/60"):
        build("proxy_anchor", fraction=0.1)
    with pytest.raises(ArgumentError, match="ProxyGML cannot be computed over some of the classes"):
        build("proxy_gml")
    with pytest.raises(ArgumentError, match="ready base has 30 classes"):
        build(SoftTriple(30, DIM))
