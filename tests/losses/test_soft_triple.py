import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lookalike.errors import ArgumentError
from lookalike.losses import NormSoftmax, SoftTriple
from lookalike.losses.kernels.chunks import Chunk
from lookalike.losses.soft_triple import center_spread, soft_similarities

from .twins import few_examples, hand_loss, of_similarities, random_sims


def slow_soft_triple(sims, labels, centers, scale, gamma, margin):
    total = 0.0
    for row, y in zip(sims.tolist(), labels.tolist(), strict=True):
        logits = []
        for c in range(len(row) // centers):
            own = row[c * centers : (c + 1) * centers]
            weights = [math.exp(s / gamma) for s in own]
            soft = sum(w * s for w, s in zip(weights, own, strict=True)) / sum(weights)
            logits.append(scale * (soft - (margin if c == y else 0)))
        total += math.log(sum(map(math.exp, logits))) - logits[y]
    return total / len(labels)


def slow_center_spread(proxies, centers):
    unit = [[x / math.hypot(*row) for x in row] for row in proxies.tolist()]
    total, classes = 0.0, len(unit) // centers
    for c in range(classes):
        for t in range(centers):
            for s in range(t + 1, centers):
                dot = sum(a * b for a, b in zip(unit[c * centers + t], unit[c * centers + s], strict=True))
                total += math.sqrt(2 + 1e-5 - 2 * dot)
    return total / (classes * centers * (centers - 1))


def spread_of(proxies, centers):
    chunk = Chunk.whole(torch.tensor([0]), len(proxies) // centers)
    return center_spread(proxies, centers_per_class=centers, chunk=chunk)


@few_examples
@given(seed=st.integers(0, 99), centers=st.integers(1, 4), gamma=st.sampled_from([0.1, 1.0]))
def test_equals_its_slow_twin(seed, centers, gamma):
    sims, labels = random_sims(seed, proxies_per_class=centers)
    fast = of_similarities(
        SoftTriple, sims, labels, centers=centers, centers_per_class=centers, gamma=gamma, center_weight=0
    )
    assert fast.item() == pytest.approx(slow_soft_triple(sims, labels, centers, 20, gamma, 0.01))


@few_examples
@given(seed=st.integers(0, 99), centers=st.integers(2, 4))
def test_spread_equals_its_slow_twin(seed, centers):
    proxies = torch.randn(3 * centers, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    spread = spread_of(proxies, centers)
    assert spread.item() == pytest.approx(slow_center_spread(proxies, centers))


def test_hand_worked_value():
    # One class has centers at cosines 1 and 0 of the sample, the other at 0 and 0; gamma 1: the soft
    # similarity of the first is e/(e+1), of the second 0.
    soft = soft_similarities(torch.tensor([[1.0, 0.0, 0.0, 0.0]]), centers_per_class=2, gamma=1)
    torch.testing.assert_close(soft, torch.tensor([[math.e / (math.e + 1), 0.0]]))
    # Two centers at a right angle are sqrt(2 + 1e-5) apart: the only pair, divided by C*N*(N-1) = 2.
    spread = spread_of(torch.tensor([[3.0, 0.0], [0.0, 0.5]]), 2)
    assert spread.item() == pytest.approx(math.sqrt(2 + 1e-5) / 2)


def test_with_one_center_it_is_norm_softmax():
    one = SoftTriple(3, 2, centers_per_class=1, center_weight=0, margin=0, scale=20)
    other = hand_loss(NormSoftmax(3, 2, temperature=1 / 20))
    assert hand_loss(one).item() == pytest.approx(other.item())


def test_equal_centers_have_a_finite_gradient():
    proxies = torch.ones(6, 4, requires_grad=True)
    spread_of(proxies, 3).backward()
    assert proxies.grad.isfinite().all()


def test_memory_of_the_regularizer_grows_with_classes_not_their_square():
    """10,000 classes of 10 centers: all cosines of centers would take 40 GB, those within classes 4 MB."""
    proxies = torch.randn(100_000, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    kept = []

    def keep(tensor):
        kept.append(tensor.numel() * tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        spread_of(proxies, 10).backward()
    assert sum(kept) < 100e6


def test_many_classes_at_the_default_settings_stay_finite():
    loss = SoftTriple(247, 8, generator=torch.Generator().manual_seed(0))
    embeddings = torch.randn(32, 8, generator=torch.Generator().manual_seed(1), requires_grad=True)
    value = loss(embeddings, torch.arange(32))
    value.backward()
    assert value.isfinite()
    assert embeddings.grad.isfinite().all()
    assert loss.proxies.grad.isfinite().all()


def test_no_centers_are_refused():
    with pytest.raises(ArgumentError, match="centers_per_class is 0; it must be at least 1"):
        SoftTriple(3, 2, centers_per_class=0)
