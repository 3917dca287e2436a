"""Chunked forms equal dense ones: values and both gradients, for any chunk size, batch and precision."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lookalike.losses import LOSSES, ProxyGML
from lookalike.losses.kernels.chunks import Part

from .kernel_cases import CASES, DIM, batch, build, check, of_part, results


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("chunk", [1, 3, 100, None])
def test_equals_the_dense_form_to_rounding(case, chunk, keep):
    loss = build(case, 11)
    embeddings, labels = batch(11, 9)
    dense = results(loss, embeddings, labels, "dense")
    check(of_part(loss, embeddings, labels, Part(chunk=chunk, keep=keep)), dense, 1e-12)


@pytest.mark.parametrize("case", [case for case in CASES if "soft_triple" not in case])
@pytest.mark.parametrize("form", ["dense", "chunked"])
def test_a_term_of_the_proxies_alone_counts_in_every_loss_and_form(case, form):
    """docs/how_to/add_a_loss.md: 0.01 times the squared lengths of the proxies."""

    class Regularized(LOSSES[CASES[case][0]]):
        def proxy_term(self, proxies_QD, chunk):
            return 0.01 * proxies_QD.square().sum()

    plain, regularized = build(case, 11), build(case, 11)
    regularized.__class__ = Regularized
    value, to_embeddings, to_proxies = results(plain, *batch(11, 9), "dense")
    found = results(regularized, *batch(11, 9), form)
    with torch.no_grad():
        wanted = (
            value + 0.01 * plain.proxies.square().sum(),
            to_embeddings,
            to_proxies + 0.02 * plain.proxies,
        )
    check(found, wanted, 1e-12)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("classes", "labels"),
    [(2, [0, 1, 1]), (2, [1, 1]), (5, [3, 3, 3]), (9, [8]), (3, [0, 1, 2, 0])],
    ids=["two classes", "one of two", "one-class batch", "one sample", "all present"],
)
def test_small_and_one_sided_batches(case, classes, labels):
    loss = build(case, classes)
    embeddings, _ = batch(classes, len(labels))
    target = torch.tensor(labels)
    dense = results(loss, embeddings, target, "dense")
    check(of_part(loss, embeddings, target, Part(chunk=2, keep=False)), dense, 1e-12)


@pytest.mark.parametrize("case", CASES)
def test_float32_is_as_near_to_float64_as_the_dense_form(case):
    """Rounding grows with the scale of the loss, so the dense form's own error is the measure."""
    exact_batch = batch(50, 20)
    exact = results(build(case, 50), *exact_batch, "dense")
    loss, embeddings = build(case, 50, torch.float32), exact_batch[0].detach().float().requires_grad_()
    dense = results(loss, embeddings, exact_batch[1], "dense")
    ours = of_part(loss, embeddings, exact_batch[1], Part(chunk=7, keep=False))
    for mine, theirs, truth in zip(ours, dense, exact, strict=True):
        error, floor = (mine - truth).abs().max(), (theirs - truth).abs().max()
        assert error <= 10 * floor + 1e-6 * truth.abs().max()


@settings(max_examples=25, deadline=None)
@given(
    case=st.sampled_from(sorted(CASES)),
    classes=st.integers(2, 12),
    size=st.integers(1, 10),
    chunk=st.integers(1, 14),
    keep=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_any_batch_and_chunk(case, classes, size, chunk, keep, seed):
    loss = build(case, classes)
    embeddings, labels = batch(classes, size, seed)
    dense = results(loss, embeddings, labels, "dense")
    check(of_part(loss, embeddings, labels, Part(chunk=chunk, keep=keep)), dense, 1e-11)


@pytest.mark.parametrize("case", [case for case in CASES if "steep" not in case])
def test_gradients_are_derivatives_and_scale_with_the_incoming_gradient(case):
    loss = build(case, 4)
    embeddings, labels = batch(4, 3)

    def scaled(embeddings: Tensor, proxies: Tensor) -> Tensor:
        return 3 * loss.chunked(embeddings, proxies, labels, Part(chunk=3))

    assert torch.autograd.gradcheck(scaled, (embeddings, loss.proxies))


@pytest.mark.parametrize("case", ["proxy_anchor", "norm_softmax", "soft_triple"])
def test_frozen_inputs_get_no_gradient_and_the_other_stays_the_same(case):
    loss = build(case, 6)
    embeddings, labels = batch(6, 5)
    _, by_embeddings, by_proxies = results(loss, embeddings, labels, "dense")
    loss.form = "chunked"
    (only,) = torch.autograd.grad(loss(embeddings, labels), loss.proxies)
    torch.testing.assert_close(only, by_proxies)
    value = loss(embeddings.detach(), labels)
    value.backward()
    torch.testing.assert_close(loss.proxies.grad, by_proxies)
    loss.proxies.requires_grad_(False)
    (only,) = torch.autograd.grad(loss(embeddings, labels), embeddings)
    torch.testing.assert_close(only, by_embeddings)
    with torch.no_grad():
        quiet = loss(embeddings, labels)
    torch.testing.assert_close(quiet, value.detach())
    assert not quiet.requires_grad


@pytest.mark.parametrize("case", ["proxy_anchor", "norm_softmax", "soft_triple"])
def test_accumulation_and_a_second_backward(case):
    loss = build(case, 6)
    loss.form = "chunked"
    embeddings, labels = batch(6, 5)
    value = loss(embeddings, labels)
    (2 * value).backward(retain_graph=True)
    value.backward()
    first_e, first_p = embeddings.grad.clone(), loss.proxies.grad.clone()
    _, by_embeddings, by_proxies = results(loss, embeddings, labels, "dense")
    torch.testing.assert_close(first_e, 3 * by_embeddings)
    torch.testing.assert_close(first_p, 3 * by_proxies)


def test_the_gradient_is_handed_over_without_a_copy():
    loss = build("norm_softmax", 300, torch.float32)
    embeddings, labels = batch(300, 4, dtype=torch.float32)
    seen = []
    embeddings.register_hook(lambda gradient: seen.append(gradient.data_ptr()))
    loss.form = "chunked"
    loss(embeddings, labels).backward()
    assert embeddings.grad.data_ptr() == seen[0]


@pytest.mark.parametrize("case", ["proxy_anchor", "norm_softmax", "soft_triple"])
def test_autocast_and_half_precision_change_nothing_but_the_input(case):
    loss = build(case, 30, torch.float32)
    embeddings, labels = batch(30, 12, dtype=torch.float32)
    half = embeddings.detach().bfloat16().requires_grad_()
    plain = results(loss, half.detach().float().requires_grad_(), labels, "dense")
    loss.form = "chunked"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(half, labels)
    value.backward()
    assert value.dtype == torch.float32
    assert loss.proxies.dtype == torch.float32
    assert half.grad.dtype == torch.bfloat16
    torch.testing.assert_close(value.detach(), plain[0])
    torch.testing.assert_close(half.grad, plain[1].bfloat16(), rtol=2e-2, atol=1e-3)
    torch.testing.assert_close(loss.proxies.grad, plain[2], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("worst", [False, True], ids=["all right", "all wrong"])
def test_extreme_similarities_stay_finite_with_a_gradient(case, worst):
    """Embeddings on their own proxies, or opposite to them and near a wrong one."""
    loss = build(case, 6, torch.float32)
    labels = torch.tensor([0, 1, 2, 3])
    first = loss.proxies.detach()[labels * loss.proxies_per_class]
    noise = 1e-3 * torch.randn(first.shape, generator=torch.Generator().manual_seed(0))
    embeddings = ((-first if worst else first) + noise).requires_grad_()
    for form in ("chunked", "dense"):
        value, by_embeddings, by_proxies = results(loss, embeddings, labels, form)
        assert all(torch.isfinite(x).all() for x in (value, by_embeddings, by_proxies))
        if worst:
            assert (by_embeddings.norm(dim=1) > 0).all()


@pytest.mark.parametrize("case", ["norm_softmax", "norm_softmax, steep", "arc_face, steep"])
def test_without_another_class_the_loss_and_its_gradients_are_0(case):
    loss = build(case, 2)
    embeddings, labels = batch(1, 3)
    value = loss.chunked(embeddings, loss.proxies[:1], labels, Part(num_classes=2))
    gradients = torch.autograd.grad(value, (embeddings, loss.proxies))
    assert value == 0
    assert all(bool((gradient == 0).all()) for gradient in gradients)


def test_lengths_and_zero_rows():
    """Any length gives the same loss; a row of zeros has the finite gradient of the dense form."""
    loss = build("proxy_anchor", 6)
    embeddings, labels = batch(6, 5)
    plain = results(loss, embeddings, labels, "chunked")
    long = (embeddings.detach() * 1e30).requires_grad_()
    check((results(loss, long, labels, "chunked")[0],), (plain[0],), 1e-12)
    with torch.no_grad():
        embeddings[0] = 0
        loss.proxies[1] = 0
    check(results(loss, embeddings, labels, "chunked"), results(loss, embeddings, labels, "dense"), 1e-12)


def test_weights_count_classes_as_if_they_were_repeated():
    """A class of weight 2 is worth two classes with the same proxy, for samples of other classes."""
    embeddings, labels = batch(4, 6)
    labels = labels % 3
    for case in ("proxy_anchor", "norm_softmax", "proxy_nca"):
        loss, twice = build(case, 4), build(case, 5)
        with torch.no_grad():
            twice.proxies[:4] = loss.proxies
            twice.proxies[4] = loss.proxies[3]
        weights = torch.tensor([1.0, 1, 1, 2], dtype=torch.float64)
        value, by_embeddings, by_proxies = of_part(
            loss, embeddings, labels, Part(weights_C=weights, num_classes=5, chunk=3)
        )
        expected = results(twice, embeddings, labels, "dense")
        merged = torch.cat([expected[2][:3], expected[2][3:].sum(dim=0, keepdim=True)])
        check((value, by_embeddings, by_proxies), (expected[0], expected[1], merged), 1e-12)


@pytest.mark.parametrize(("per_class", "neighbors"), [(1, 5), (1, 1), (3, 7), (3, 3), (3, 2)])
@pytest.mark.parametrize("samples", [1, 4, 100, None])
@pytest.mark.parametrize(
    "arguments", [{}, {"mask": "nonzero"}, {"mask": "none"}, {"positive_bonus": 1.0}], ids=str
)
def test_proxy_gml_in_blocks_of_samples_equals_the_dense_form(per_class, neighbors, samples, arguments):
    loss = ProxyGML(
        13,
        DIM,
        proxies_per_class=per_class,
        neighbor_ratio=neighbors / (13 * per_class),
        regularizer_weight=0,
        scale=3.0,
        generator=torch.Generator().manual_seed(1),
        **arguments,
    ).double()
    embeddings, labels = batch(13, 9)
    dense = results(loss, embeddings, labels, "dense")
    value = loss.in_blocks(embeddings, labels, samples=samples)
    check((value.detach(), *torch.autograd.grad(value, (embeddings, loss.proxies))), dense, 1e-12)


def test_of_tied_proxies_those_in_the_value_get_the_gradient(monkeypatch):
    """Classes 0 to 4 share one proxy; sample 0, of class 3, selects two of the others, whichever topk returns.

    On an accelerator, topk may return other indices at every call for equal numbers; here it does so too.
    """
    loss = ProxyGML(6, DIM, proxies_per_class=1, regularizer_weight=0, neighbor_ratio=0.5).double()
    embeddings, _ = batch(6, 1)
    with torch.no_grad():
        loss.proxies[:5] = embeddings[0] + torch.arange(DIM)
        loss.proxies[5] = -embeddings[0]
    calls = []

    def any_topk(self, k, dim, sorted):
        calls.append(k)
        others = [0, 1, 2, 4]
        first = len(calls) % 3
        return torch.return_types.topk((self[:, :k], torch.tensor([[3, *others[first : first + 2]]])))

    monkeypatch.setattr(torch.Tensor, "topk", any_topk)
    value = loss.in_blocks(embeddings, torch.tensor([3]))
    (by_proxies,) = torch.autograd.grad(value, loss.proxies)
    torch.testing.assert_close(value.detach(), torch.tensor(3.0, dtype=torch.float64).log())
    assert calls == [3]
    assert by_proxies.norm(dim=1).nonzero()[:, 0].tolist() == [1, 2, 3]
