import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lookalike.errors import ArgumentError
from lookalike.losses import NormSoftmax, ProxyNCA, ProxyNCAPlusPlus

from .twins import HAND_LABELS, HAND_SIMS, few_examples, hand_loss, of_similarities, random_sims


def slow_proxy_nca(sims, labels, temperature, include_positive, smoothing):
    """Distances, exponentials and logarithms, one sample and one class at a time."""
    total = 0.0
    for row, y in zip(sims.tolist(), labels.tolist(), strict=True):
        logits = [-(2 - 2 * s) / temperature for s in row]
        others = [c for c in range(len(row)) if c != y]
        kept = range(len(row)) if include_positive else others
        log_sum = math.log(sum(math.exp(logits[c]) for c in kept))
        total += (1 - smoothing) * (log_sum - logits[y])
        total += smoothing / len(others) * sum(log_sum - logits[c] for c in others)
    return total / len(labels)


@pytest.mark.parametrize(
    ("include_positive", "smoothing"), [(False, 0.0), (True, 0.0), (True, 0.1), (True, 1.0)]
)
@few_examples
@given(seed=st.integers(0, 99), temperature=st.sampled_from([1 / 32, 1 / 9, 1.0, 2.0]))
def test_equals_its_slow_twin(include_positive, smoothing, seed, temperature):
    sims, labels = random_sims(seed)
    fast = of_similarities(
        ProxyNCA,
        sims,
        labels,
        temperature=temperature,
        include_positive=include_positive,
        label_smoothing=smoothing,
    )
    assert fast.item() == pytest.approx(
        slow_proxy_nca(sims, labels, temperature, include_positive, smoothing)
    )


def test_hand_worked_values():
    # ProxyNCA++: logits 18*s. Samples 1 and 3 are at their proxies: log(1 + e^-18 + ...) is about 0. Sample 2
    # has cosines .6 and .8, sample 4 .6 and .8: log(1 + e^(18*.2)) = log(1 + e^3.6) each; the mean is half of
    # it.
    hand = math.log1p(math.exp(3.6)) / 2
    assert hand_loss(ProxyNCAPlusPlus(3, 2)).item() == pytest.approx(hand, abs=1e-7)
    assert hand == pytest.approx(1.813479, abs=1e-6)
    # Paper: -2*s_y + log of the sum over the wrong classes of e^(2*s). E.g. sample 1: -2 + log(e^0 + e^-2).
    samples = [
        -2 * row[y] + math.log(sum(math.exp(2 * s) for c, s in enumerate(row) if c != y))
        for row, y in zip(HAND_SIMS, HAND_LABELS, strict=True)
    ]
    assert samples[0] == pytest.approx(-2 + math.log(1 + math.exp(-2)))
    assert hand_loss(ProxyNCA(3, 2)).item() == pytest.approx(sum(samples) / 4)
    assert sum(samples) / 4 == pytest.approx(-0.570235, abs=1e-6)


@few_examples
@given(seed=st.integers(0, 99))
def test_plus_plus_is_norm_softmax_at_half_the_temperature(seed):
    sims, labels = random_sims(seed)
    embeddings = torch.randn(len(labels), 3, generator=torch.Generator().manual_seed(seed))
    plus, norm = ProxyNCAPlusPlus(sims.shape[1], 3), NormSoftmax(sims.shape[1], 3, temperature=1 / 18)
    norm.proxies.data = plus.proxies.data
    torch.testing.assert_close(plus(embeddings, labels), norm(embeddings, labels))


def test_gradient_by_a_cosine_is_that_of_the_paper():
    sims, labels = random_sims(4)
    sims.requires_grad_()
    of_similarities(ProxyNCAPlusPlus, sims, labels, temperature=1 / 9).backward()
    wanted = 18 * ((18 * sims.detach()).softmax(dim=1) - torch.eye(sims.shape[1])[labels]) / len(labels)
    torch.testing.assert_close(sims.grad, wanted, check_dtype=False)


def test_the_sample_on_the_wrong_proxy_keeps_its_gradient_at_a_high_scale():
    """Where plain exponentials underflow, the worst sample would get loss 0 and no gradient."""
    sims = torch.tensor([[-1.0, 1.0]], requires_grad=True)
    for include_positive in (True, False):
        loss = of_similarities(
            ProxyNCA, sims, torch.tensor([0]), temperature=1 / 60, include_positive=include_positive
        )
        (gradient,) = torch.autograd.grad(loss, sims)
        assert loss.item() == pytest.approx(240)
        torch.testing.assert_close(gradient, torch.tensor([[-120.0, 120.0]]))


def test_label_smoothing_needs_the_softmax_form():
    with pytest.raises(ArgumentError, match=r"label_smoothing is 0\.1; .* set include_positive=True"):
        ProxyNCA(3, 2, label_smoothing=0.1)
    with pytest.raises(ArgumentError, match="temperature is 0; it must be above 0"):
        ProxyNCAPlusPlus(3, 2, temperature=0)
