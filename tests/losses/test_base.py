import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lookalike.errors import ArgumentError
from lookalike.losses import LOSSES, ProxyAnchor, ProxyLoss, SoftTriple
from lookalike.losses.functional import unit_rows
from lookalike.losses.proxy_init import PROXY_INITS

from .cases import SETTINGS
from .twins import few_examples


@few_examples
@given(st.floats(-37, 37), st.integers(0, 99))
def test_rows_of_any_length_become_unit_rows(exponent, seed):
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(seed))
    unit = unit_rows(x * 10**exponent)
    assert unit.dtype == torch.float32
    torch.testing.assert_close(unit.norm(dim=1), torch.ones(3))
    torch.testing.assert_close(unit, x / x.norm(dim=1, keepdim=True))


def test_a_row_of_zeros_stays_zero_with_a_gradient_of_ordinary_size():
    x = torch.zeros(2, 3, requires_grad=True)
    unit = unit_rows(x)
    unit.sum().backward()
    assert torch.equal(unit, torch.zeros(2, 3))
    assert x.grad.abs().max() <= 2


def test_half_precision_is_made_float32_first():
    x = torch.full((1, 4), 300.0, dtype=torch.float16)  # its squared length overflows float16
    torch.testing.assert_close(unit_rows(x), torch.full((1, 4), 0.5))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("randn", 1.0),
        ("randn/8", 1 / 8),
        ("kaiming", math.sqrt(2 / 300)),
        ("xavier", math.sqrt(2 / 364)),
        ("uniform", 1 / math.sqrt(64) / math.sqrt(3)),
        ("kaiming_uniform", 1 / math.sqrt(300) / math.sqrt(3)),
    ],
)
def test_spread_of_the_random_starts(name, expected):
    drawn = type("Drawn", (SoftTriple,), {"proxy_init": name})
    loss = drawn(100, 64, centers_per_class=3, generator=torch.Generator().manual_seed(0))
    assert loss.proxies.shape == (300, 64)
    assert loss.proxies.std().item() == pytest.approx(expected, rel=0.03)
    assert loss.proxies.mean().abs().item() < 0.03 * expected
    assert name in PROXY_INITS


def test_reset_draws_the_same_proxies_from_the_same_generator():
    loss = ProxyAnchor(3, 4)
    first = loss.proxies.detach().clone()
    loss.reset_parameters(torch.Generator().manual_seed(1))
    second = loss.proxies.detach().clone()
    loss.reset_parameters(torch.Generator().manual_seed(1))
    assert not torch.equal(first, second)
    assert torch.equal(loss.proxies, second)


def test_class_means_by_hand_and_absent_classes_stay():
    loss = ProxyAnchor(3, 2)
    start = loss.proxies.detach().clone()
    embeddings = torch.tensor([[5.0, 0.0], [0.0, 0.1], [-2.0, 0.0]])
    loss.initialize_proxies_at_class_means(embeddings, torch.tensor([0, 0, 2]))
    half = math.sqrt(0.5)
    torch.testing.assert_close(
        loss.proxies.data, torch.stack([torch.tensor([half, half]), start[1], torch.tensor([-1.0, 0.0])])
    )


@pytest.mark.parametrize("rows", [1, 7, 100])
def test_class_means_are_the_same_in_blocks_of_any_size(rows, monkeypatch):
    embeddings = torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(50) % 4
    whole, in_blocks = ProxyAnchor(5, 6), ProxyAnchor(5, 6)
    in_blocks.load_state_dict(whole.state_dict())
    whole.initialize_proxies_at_class_means(embeddings, labels)
    monkeypatch.setattr("lookalike.losses.proxy_init.ROWS_PER_DRAW", rows)
    in_blocks.initialize_proxies_at_class_means(embeddings, labels)
    torch.testing.assert_close(in_blocks.proxies, whole.proxies, rtol=1e-6, atol=1e-7)


def test_several_proxies_start_around_the_class_mean():
    loss = SoftTriple(2, 64, centers_per_class=3)
    g = torch.Generator().manual_seed(0)
    means = torch.eye(64)[:2]
    loss.initialize_proxies_at_class_means(means, torch.tensor([0, 1]), g)
    torch.testing.assert_close(loss.proxies.norm(dim=1), torch.ones(6))
    sims = loss.proxies @ means.T
    assert (sims.argmax(dim=1) == torch.tensor([0, 0, 0, 1, 1, 1])).all()
    assert (sims.amax(dim=1) > 0.98).all()
    assert len(loss.proxies.unique(dim=0)) == 6
    with pytest.raises(ArgumentError, match="label 2 is not in"):
        loss.initialize_proxies_at_class_means(means, torch.tensor([0, 2]))


def test_similarities_are_cosines_with_every_proxy():
    loss = SoftTriple(2, 2, centers_per_class=2)
    loss.proxies.data = torch.tensor([[2.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -3.0]])
    embeddings = torch.tensor([[0.6, 0.8], [-5.0, 0.0]])
    torch.testing.assert_close(
        loss.similarities(embeddings), torch.tensor([[0.6, 0.8, -0.6, -0.8], [-1.0, 0.0, 1.0, 0.0]])
    )


PLAIN = [name for name, kind in LOSSES.items() if issubclass(kind, ProxyLoss)]


@pytest.mark.parametrize("case", [case for case in SETTINGS if SETTINGS[case][0] in PLAIN])
def test_settings_build_the_same_loss_again(case):
    name, settings = SETTINGS[case]
    loss = LOSSES[name](5, 4, **settings)
    again = LOSSES[name](5, 4, **loss.settings())
    assert again.settings() == loss.settings()
    assert settings.items() <= loss.settings().items()
    assert all(f"{key}={value!r}" in repr(loss) for key, value in settings.items())
