"""Poolings against hand-worked values and loops."""

import pytest
import torch

from lookalike.errors import ArgumentError, UnknownNameError
from lookalike.models import pooling

MAPS = torch.tensor([[[[1.0, 2.0], [3.0, 6.0]], [[0.0, 0.0], [0.0, -4.0]]]])


def test_by_hand():
    assert pooling.average(MAPS).tolist() == [[3.0, -1.0]]
    assert pooling.maximum(MAPS).tolist() == [[6.0, 0.0]]
    assert pooling.pool(MAPS, "average_plus_maximum").tolist() == [[9.0, -1.0]]
    assert pooling.k_max(MAPS, 3).tolist() == [[pytest.approx(11 / 3), 0.0]]


def test_concat_is_two_unit_vectors():
    both = pooling.pool(MAPS, "concat")
    assert both.shape == (1, 4)
    torch.testing.assert_close(both[:, :2], torch.tensor([[3.0, -1.0]]) / 10**0.5)
    torch.testing.assert_close(both[:, 2:], torch.tensor([[1.0, 0.0]]))


def test_k_max_goes_from_maximum_to_average():
    maps = torch.randn(3, 4, 5, 5, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(pooling.k_max(maps, 1), pooling.maximum(maps))
    torch.testing.assert_close(pooling.k_max(maps, 25), pooling.average(maps))
    steps = torch.stack([pooling.k_max(maps, k) for k in range(1, 26)])
    assert bool((steps.diff(dim=0) <= 1e-6).all()), "each further value can only lower the mean"


@pytest.mark.parametrize("k", [0, 5])
def test_k_max_refuses_more_positions_than_there_are(k):
    with pytest.raises(ArgumentError, match=r"k must lie in 1\.\.4"):
        pooling.k_max(MAPS, k)


@pytest.mark.parametrize("name", pooling.POOLING_NAMES)
def test_every_pooling_has_the_width_it_says_and_is_float32(name):
    maps = torch.randn(2, 6, 3, 3, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    vectors = pooling.pool(maps, name, k=2)
    assert vectors.shape == (2, pooling.pooled_width(6, name))
    assert vectors.dtype == torch.float32


@pytest.mark.parametrize("name", pooling.POOLING_NAMES)
def test_every_pooling_ignores_where_a_value_stands(name):
    generator = torch.Generator().manual_seed(2)
    maps = torch.randn(2, 3, 4, 4, generator=generator)
    shuffled = maps.flatten(2)[:, :, torch.randperm(16, generator=generator)].unflatten(2, (4, 4))
    torch.testing.assert_close(pooling.pool(maps, name, k=3), pooling.pool(shuffled, name, k=3))


def test_unknown_pooling_names_the_near_miss():
    with pytest.raises(UnknownNameError, match="did you mean 'maximum'"):
        pooling.pool(MAPS, "maximun")


def test_norms():
    vectors = torch.tensor([[3.0, 4.0, 0.0]])
    assert pooling.normed(vectors, "none") is vectors
    torch.testing.assert_close(pooling.normed(vectors, "unit"), torch.tensor([[0.6, 0.8, 0.0]]))
    normal = pooling.normed(vectors, "layer_norm")
    assert abs(float(normal.mean())) < 1e-6
    assert float(normal.var(unbiased=False)) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("name", pooling.FROM_BOTH)
def test_average_and_maximum_are_enough_for_every_pooling_but_k_max(name):
    maps = torch.randn(3, 4, 5, 5, generator=torch.Generator().manual_seed(1))
    both = pooling.average_and_maximum(maps)
    assert both.shape == (3, 8)
    assert torch.equal(pooling.from_average_and_maximum(both, name), pooling.pool(maps, name))
