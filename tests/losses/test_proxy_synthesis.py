"""Proxy Synthesis: orders of batches, shares from seeds, and what evaluation sees."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lookalike.errors import ArgumentError
from lookalike.losses import ProxySynthesis
from lookalike.losses.proxy_synthesis import apart


@given(st.lists(st.integers(0, 4), min_size=2, max_size=24))
def test_an_order_is_a_permutation_with_fewer_equal_neighbors(labels):
    order = apart(labels)
    assert sorted(order) == list(range(len(labels)))
    equal = [
        sum(row[i - 1] == row[i] for i in range(len(row))) for row in (labels, [labels[i] for i in order])
    ]
    assert equal[1] <= equal[0] or equal[0] == 0


def test_neighbors_of_a_balanced_batch_are_of_different_classes():
    order = apart([0] * 4 + [1] * 4 + [2] * 4)
    labels = [[0] * 4, [1] * 4, [2] * 4]
    flat = [label for group in labels for label in group]
    assert all(flat[order[i - 1]] != flat[order[i]] for i in range(12))


def loss_and_batch(**settings):
    generator = torch.Generator().manual_seed(0)
    loss = ProxySynthesis(4, 3, generator=generator, **settings)
    return loss, torch.randn(8, 3, generator=generator), torch.arange(8) % 4


def test_without_synthetic_classes_and_in_evaluation_it_is_the_base():
    none, embeddings, labels = loss_and_batch(mu=0.0)
    assert none(embeddings, labels).item() == pytest.approx(none.base(embeddings, labels).item(), rel=1e-6)
    loss, embeddings, labels = loss_and_batch()
    loss.eval()
    assert loss(embeddings, labels).item() == loss.base(embeddings, labels).item()


def test_the_share_of_each_step_follows_from_the_seed_and_survives_a_state_dict():
    one, embeddings, labels = loss_and_batch(seed=3)
    values = [one(embeddings, labels).item() for _ in range(3)]
    again, *_ = loss_and_batch(seed=3)
    again.load_state_dict(one.state_dict())
    again.iteration = 1
    assert [again(embeddings, labels).item() for _ in range(2)] == values[1:]
    assert len(set(values)) == 3


def test_a_base_of_several_centers_is_refused():
    with pytest.raises(ArgumentError, match="several centers per class"):
        ProxySynthesis(4, 3, base="soft_triple")
