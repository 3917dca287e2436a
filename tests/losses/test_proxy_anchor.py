import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lookalike.errors import ArgumentError
from lookalike.losses import ProxyAnchor

from .twins import few_examples, hand_loss, of_similarities, random_sims


def slow_proxy_anchor(sims, labels, margin, scale):
    """The formula of the paper, proxy by proxy, with plain exponentials."""
    rows, y = sims.tolist(), labels.tolist()
    pull, push = [], []
    for c in range(len(rows[0])):
        own = [row[c] for row, label in zip(rows, y, strict=True) if label == c]
        other = [row[c] for row, label in zip(rows, y, strict=True) if label != c]
        push.append(math.log(1 + sum(math.exp(scale * (s + margin)) for s in other)))
        if own:
            pull.append(math.log(1 + sum(math.exp(-scale * (s - margin)) for s in own)))
    return sum(pull) / len(pull) + sum(push) / len(push)


@few_examples
@given(
    seed=st.integers(0, 99),
    margin=st.sampled_from([0.0, 0.1, 0.5]),
    scale=st.sampled_from([1.0, 4.0, 32.0]),
)
def test_equals_its_slow_twin(seed, margin, scale):
    sims, labels = random_sims(seed)
    fast = of_similarities(ProxyAnchor, sims, labels, margin=margin, scale=scale)
    assert fast.item() == pytest.approx(slow_proxy_anchor(sims, labels, margin, scale))


def test_hand_worked_value():
    # Every sample is at cosine .6 or more to its proxy, so the positive part is about e^(-32*.5), nothing.
    # Negatives of proxy 0 are samples 3 and 4, cosines 0 and -.8: log(1 + e^(32*.1) + e^(32*-.7)) = 3.23995;
    # of proxy 1 samples 1 and 2, cosines 0 and .8: log(1 + e^3.2 + e^28.8) = 28.8; of the absent proxy 2 all,
    # the nearest at .8: 28.8. The mean of the three is the loss.
    negative = (math.log(1 + math.exp(3.2)) + 28.8 + 28.8) / 3
    assert negative == pytest.approx(20.27998, abs=1e-5)
    assert hand_loss(ProxyAnchor(3, 2)).item() == pytest.approx(negative, abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_scale_at_which_plain_exponentials_overflow(dtype):
    loss = ProxyAnchor(2, 2, scale=256)
    loss.proxies.data = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    embeddings = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=dtype)
    swapped = torch.tensor([1, 0])
    exact = loss(embeddings.double(), swapped)
    assert exact.item() == pytest.approx(2 * 256 * 1.1)
    torch.testing.assert_close(loss(embeddings, swapped).double(), exact, rtol=1e-5, atol=0)


def test_a_class_without_samples_is_a_negative_only():
    sims, labels = torch.tensor([[0.9, 0.1, 0.3]]), torch.tensor([0])
    pull = math.log1p(math.exp(-32 * (0.9 - 0.1)))
    push = [0, math.log1p(math.exp(32 * 0.2)), math.log1p(math.exp(32 * 0.4))]
    value = of_similarities(ProxyAnchor, sims, labels, margin=0.1, scale=32)
    assert value.item() == pytest.approx(pull + sum(push) / 3, rel=1e-6)


def test_a_scale_of_zero_is_refused():
    with pytest.raises(ArgumentError, match="scale is 0; it must be above 0"):
        ProxyAnchor(3, 2, scale=0)
