import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lookalike.errors import ArgumentError
from lookalike.losses import NormSoftmax, ProxyGML
from lookalike.losses import proxy_gml as module
from lookalike.losses.proxy_gml import proxy_gml, proxy_regularizer

from .twins import few_examples, hand_loss, random_sims


def slow_proxy_gml(sims, labels, proxies_per_class, neighbors, positive_bonus, mask, scale=1.0):
    """Rank, select, sum by class and take the softmax, one sample at a time."""
    total = 0.0
    for row, y in zip(sims.tolist(), labels.tolist(), strict=True):
        bonus = 1000.0 if positive_bonus is None else positive_bonus
        ranking = [s + bonus * (j // proxies_per_class == y) for j, s in enumerate(row)]
        selected = sorted(range(len(row)), key=lambda j: -ranking[j])[:neighbors]
        sums = dict.fromkeys(range(len(row) // proxies_per_class), 0.0)
        for j in selected:
            sums[j // proxies_per_class] += row[j]
        if mask != "nonzero":
            graph = set(sums) if mask == "none" else {j // proxies_per_class for j in selected} | {y}
            own = math.exp(scale * sums[y]) / sum(math.exp(scale * sums[c]) for c in graph)
            total -= math.log(own)
        else:
            kept = {c: math.exp(scale * z) if z != 0 else 0.0 for c, z in sums.items()}
            total -= math.log(kept[y] / (1e-8 + sum(kept.values())) + 1e-20)
    return total / len(labels)


@pytest.mark.parametrize("mask", ["selected", "nonzero", "none"])
@pytest.mark.parametrize("positive_bonus", [None, 1.0, 0.0])
@few_examples
@given(seed=st.integers(0, 99), proxies_per_class=st.integers(1, 4), ratio=st.floats(0.1, 1))
def test_equals_its_slow_twin(mask, positive_bonus, seed, proxies_per_class, ratio):
    sims, labels = random_sims(seed, proxies_per_class=proxies_per_class)
    neighbors = max(1, int(ratio * sims.shape[1]))
    fast = proxy_gml(
        sims,
        labels,
        proxies_per_class=proxies_per_class,
        neighbors=neighbors,
        scale=1,
        positive_bonus=positive_bonus,
        mask=mask,
    )
    slow = slow_proxy_gml(sims, labels, proxies_per_class, neighbors, positive_bonus, mask)
    assert fast.item() == pytest.approx(slow, abs=1e-12)


@few_examples
@given(seed=st.integers(0, 99))
def test_regularizer_equals_its_slow_twin(seed):
    proxies = torch.randn(6, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    unit = (proxies / proxies.norm(dim=1, keepdim=True)).tolist()
    total = 0.0
    for j, a in enumerate(unit):
        dots = [sum(x * y for x, y in zip(a, b, strict=True)) for b in unit]
        sums = [sum(dots[2 * c : 2 * c + 2]) for c in range(3)]
        total += math.log(sum(map(math.exp, sums))) - sums[j // 2]
    assert proxy_regularizer(proxies, proxies_per_class=2).item() == pytest.approx(total / 6)


@pytest.mark.parametrize("rows", [1, 3, 10, 12, 100])
def test_regularizer_in_blocks_is_the_same(rows):
    proxies = torch.randn(12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    proxies.requires_grad_()
    values, gradients = [], []
    for at_once in (rows, None):
        values.append(proxy_regularizer(proxies, proxies_per_class=3, rows=at_once))
        gradients.append(*torch.autograd.grad(values[-1], proxies))
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*gradients)


def test_hand_worked_values():
    # N = 1, r = 1: cross-entropy of plain cosines. The authors' code drops classes at cosine exactly 0:
    # sample 1 keeps cosines 1 and -1, sample 3 only its own, so that it costs nothing.
    cosines = [
        math.log(math.e + 1 + math.exp(-1)) - 1,
        math.log(math.exp(0.6) + math.exp(0.8) + math.exp(-0.6)) - 0.6,
        math.log(1 + math.e + 1) - 1,
        math.log(math.exp(-0.8) + math.exp(0.6) + math.exp(0.8)) - 0.6,
    ]
    without_zeros = [math.log(math.e + math.exp(-1)) - 1, cosines[1], 0, cosines[3]]
    settings = {"proxies_per_class": 1, "neighbor_ratio": 1, "regularizer_weight": 0}
    assert hand_loss(ProxyGML(3, 2, **settings)).item() == pytest.approx(sum(cosines) / 4)
    assert sum(cosines) / 4 == pytest.approx(0.696937, abs=1e-6)
    authors = hand_loss(ProxyGML(3, 2, **settings, mask="nonzero"))
    assert authors.item() == pytest.approx(sum(without_zeros) / 4, abs=1e-7)
    assert sum(without_zeros) / 4 == pytest.approx(0.488906, abs=1e-6)


def test_one_proxy_and_all_neighbors_are_norm_softmax_at_temperature_1():
    loss = ProxyGML(3, 2, proxies_per_class=1, neighbor_ratio=1, regularizer_weight=0, scale=5)
    assert hand_loss(loss).item() == pytest.approx(hand_loss(NormSoftmax(3, 2, temperature=1 / 5)).item())


def small_loss(**settings):
    g = torch.Generator().manual_seed(0)
    loss = ProxyGML(5, 4, proxies_per_class=3, generator=g, **settings)
    return loss, torch.randn(6, 4, generator=g, requires_grad=True), torch.tensor([0, 1, 2, 3, 4, 0])


def test_only_selected_proxies_get_a_gradient_from_the_samples():
    loss, embeddings, labels = small_loss(neighbor_ratio=0.4, regularizer_weight=0)
    sims = loss.similarities(embeddings)
    sims.retain_grad()
    proxy_gml(
        sims,
        labels,
        proxies_per_class=3,
        neighbors=loss.neighbors,
        scale=1,
        positive_bonus=None,
        mask="selected",
    ).backward()
    assert loss.neighbors == 6
    assert ((sims.grad != 0).sum(dim=1) == 6).all()


def test_with_own_proxies_only_the_samples_teach_nothing():
    loss, embeddings, labels = small_loss(neighbor_ratio=0.2, regularizer_weight=0)
    assert loss.neighbors == loss.proxies_per_class
    value = loss(embeddings, labels)
    value.backward()
    assert value.item() == 0
    assert embeddings.grad.abs().sum() == 0
    assert loss.proxies.grad.abs().sum() == 0


def test_fewer_neighbors_than_own_proxies_are_allowed():
    loss, embeddings, labels = small_loss(neighbor_ratio=0.1)
    assert loss.neighbors == 2
    value = loss(embeddings, labels)
    value.backward()
    assert value.isfinite()
    assert loss.proxies.grad.abs().sum() > 0  # from the regularizer


def test_the_regularizer_reaches_every_proxy():
    loss, embeddings, labels = small_loss(neighbor_ratio=0.2, regularizer_weight=0.3)
    loss(embeddings, labels).backward()
    assert (loss.proxies.grad.abs().sum(dim=1) > 0).all()


@pytest.mark.parametrize(
    ("classes", "proxies_per_class", "ratio", "neighbors"),
    [(100, 12, 0.05, 60), (98, 12, 0.05, 59), (11318, 1, 0.05, 566), (98, 12, 0.01, 12), (4, 1, 0.1, 1)],
)
def test_number_of_neighbors_of_the_papers(classes, proxies_per_class, ratio, neighbors):
    loss = ProxyGML(classes, 2, proxies_per_class=proxies_per_class, neighbor_ratio=ratio)
    assert loss.neighbors == neighbors


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"neighbor_ratio": 0}, "neighbor_ratio is 0; it must be above 0"),
        ({"neighbor_ratio": 1.5}, r"neighbor_ratio is 1\.5; it must lie in 0 to 1"),
        ({"mask": "select"}, "mask is 'select'; did you mean 'selected'"),
        ({"positive_bonus": -1}, "positive_bonus is -1; it must be at least 0"),
    ],
)
def test_invalid_arguments_are_refused(settings, message):
    with pytest.raises(ArgumentError, match=message):
        ProxyGML(5, 4, **settings)


def test_tied_similarities_are_selected_once_for_value_and_gradient(monkeypatch):
    """topk promises no order of ties; here the tied proxies that are taken alternate from call to call."""
    loss = ProxyGML(4, 3, proxies_per_class=1, neighbor_ratio=0.5, regularizer_weight=0.0)
    with torch.no_grad():
        loss.proxies.copy_(torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 1, 0], [0, 1, 0]]))
    embeddings, labels = torch.tensor([[1.0, 0.5, 0.2]], requires_grad=True), torch.tensor([0])
    calls = []

    def select(sims, labels, **_):
        calls.append(1 + len(calls) % 3)
        return torch.tensor([[0, calls[-1]]])

    monkeypatch.setattr(module, "select_proxies", select)
    loss.in_blocks(embeddings, labels).backward()
    assert calls == [1]
    assert loss.proxies.grad.any(dim=1).tolist() == [True, True, False, False]
