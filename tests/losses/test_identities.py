"""Losses that are the same function under two names, and what follows from being a function of cosines."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pytorch_metric_learning import losses as pml

from lookalike.losses import (
    HierarchicalProxyLoss,
    NormSoftmax,
    ProxyAnchor,
    ProxyGML,
    ProxyNCA,
    ProxyNCAPlusPlus,
    SoftTriple,
)

from .twins import few_examples

CLASSES, DIM = 4, 3


def batch(seed):
    g = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(7, DIM, generator=g, dtype=torch.float64)
    return embeddings, torch.randint(0, CLASSES, (7,), generator=g)


def value_and_gradients(loss, seed):
    """Of a loss whose proxies are the seed's."""
    loss = loss.double()
    proxies = torch.randn(
        CLASSES, DIM, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64
    )
    parameter = loss.proxies
    parameter.data = proxies.clone()
    embeddings, labels = batch(seed)
    embeddings.requires_grad_()
    value = loss(embeddings, labels)
    return value, *torch.autograd.grad(value, [embeddings, parameter])


def assert_same(first, second, seed, factor=1.0):
    for a, b in zip(value_and_gradients(first, seed), value_and_gradients(second, seed), strict=True):
        torch.testing.assert_close(a, factor * b, rtol=1e-9, atol=1e-12)


seeds = given(seed=st.integers(0, 30))


@few_examples
@seeds
@pytest.mark.parametrize("scale", [1.0, 3.0, 5.5])
def test_proxy_nca_pp_is_pml_proxy_nca_and_norm_softmax(scale, seed):
    ours = ProxyNCAPlusPlus(CLASSES, DIM, temperature=1 / scale**2)
    assert_same(ours, pml.ProxyNCALoss(CLASSES, DIM, softmax_scale=scale**2), seed)
    assert_same(ours, NormSoftmax(CLASSES, DIM, temperature=1 / (2 * scale**2)), seed)
    assert_same(ours, ProxyNCA(CLASSES, DIM, temperature=1 / scale**2, include_positive=True), seed)


@few_examples
@seeds
def test_what_the_proxy_anchor_authors_ran_as_proxy_nca(seed):
    ours = ProxyNCA(CLASSES, DIM, temperature=1 / 32, include_positive=True)
    assert_same(ours, pml.ProxyNCALoss(CLASSES, DIM, softmax_scale=32), seed)
    assert_same(ours, NormSoftmax(CLASSES, DIM, temperature=1 / 64), seed)


@few_examples
@seeds
def test_proxy_nca_with_different_lengths_of_embeddings_and_proxies(seed):
    """Lengths 1 and 8 give logits 16*cosine - 65: temperature 1/8."""
    ours = ProxyNCA(CLASSES, DIM, temperature=1 / 8, include_positive=True)
    assert_same(ours, NormSoftmax(CLASSES, DIM, temperature=1 / (2 * 1 * 8)), seed)


@few_examples
@seeds
def test_proxy_nca_of_the_proxy_anchor_paper_is_the_sum_at_temperature_2(seed):
    loss = ProxyNCA(CLASSES, DIM, temperature=2)
    value, *_ = value_and_gradients(loss, seed)
    embeddings, labels = batch(seed)
    sims = loss.similarities(embeddings)
    others = sims.clone().scatter_(1, labels[:, None], -torch.inf)
    summed = (others.logsumexp(dim=1) - sims.gather(1, labels[:, None])[:, 0]).sum()
    torch.testing.assert_close(summed, len(labels) * value)


@few_examples
@seeds
def test_proxy_anchor_is_pml_proxy_anchor(seed):
    assert_same(ProxyAnchor(CLASSES, DIM), pml.ProxyAnchorLoss(CLASSES, DIM, margin=0.1, alpha=32), seed)


@few_examples
@seeds
def test_soft_triple_with_one_center_is_norm_softmax(seed):
    ours = SoftTriple(CLASSES, DIM, centers_per_class=1, center_weight=0, margin=0, scale=20)
    assert_same(ours, NormSoftmax(CLASSES, DIM, temperature=1 / 20), seed)


@few_examples
@seeds
def test_proxy_gml_with_one_proxy_and_all_neighbors_is_norm_softmax_at_temperature_1(seed):
    ours = ProxyGML(CLASSES, DIM, proxies_per_class=1, neighbor_ratio=1, regularizer_weight=0)
    assert_same(ours, NormSoftmax(CLASSES, DIM, temperature=1), seed)


@few_examples
@seeds
@pytest.mark.parametrize("mode", ["means", "constant"])
def test_a_hierarchy_of_single_classes_doubles_the_loss(mode, seed):
    ours = HierarchicalProxyLoss(CLASSES, DIM, parents=[range(CLASSES)], coarse_mode=mode)
    value, *gradients = value_and_gradients(ours, seed)
    base, *base_gradients = value_and_gradients(ProxyAnchor(CLASSES, DIM), seed)
    torch.testing.assert_close(value, 2 * base)
    torch.testing.assert_close(gradients[0], 2 * base_gradients[0])
    torch.testing.assert_close(gradients[1], (2 if mode == "means" else 1) * base_gradients[1])
