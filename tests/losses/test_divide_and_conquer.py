"""Divide and Conquer: clusters that keep their numbers, batches by turns, and slices that train alone."""

import numpy as np
import pytest
import torch

from lookalike.errors import ArgumentError
from lookalike.losses import DivideAndConquer, NearestMargin
from lookalike.losses.divide_and_conquer import keep_numbers

CLASSES, DIM = 6, 7
LABELS = np.repeat(np.arange(CLASSES), 8)


def images(seed=0):
    """Embeddings in two far groups: classes 0 to 2 and 3 to 5."""
    vectors = torch.randn(len(LABELS), DIM, generator=torch.Generator().manual_seed(seed))
    vectors[:, 0] += torch.from_numpy(np.where(LABELS < 3, 20.0, -20.0))
    return vectors


def planned(done=0.0, **settings):
    """A loss that has looked and planned an epoch, and the plan."""
    loss = DivideAndConquer(CLASSES, DIM, learners=2, **settings)
    loss.update(images(), torch.from_numpy(LABELS))
    return loss, loss.plan(LABELS, np.random.default_rng(0), done=done, classes=2, per_class=3)


def test_new_clusters_take_the_numbers_of_those_they_grew_out_of():
    before = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 2])
    assert keep_numbers(np.array([2, 2, 1, 0, 0, 0, 1, 1, 1, 2]), before, 3).tolist() == [
        0, 0, 2, 1, 1, 1, 2, 2, 2, 0,
    ]  # fmt: skip
    assert keep_numbers(np.array([1, 1, 1, 2, 2, 2, 0, 0, 0, 0]), before, 3).tolist() == before.tolist()


def test_batches_take_turns_and_each_is_of_one_cluster():
    loss, batches = planned()
    assert len(batches) == 2 * (24 // 6)  # both clusters have 24 images
    for turn, rows in enumerate(batches):
        assert len(set(rows)) == 6
        assert set(loss.cluster_N[rows]) == {turn % 2}
        assert sorted(np.bincount(LABELS[rows])[np.unique(LABELS[rows])]) == [3, 3]


def test_each_turn_trains_the_slice_of_its_cluster_only():
    loss, batches = planned()
    loss.train()
    for turn, rows in enumerate(batches):
        batch = images(seed=1)[rows].requires_grad_()
        labels = torch.from_numpy(LABELS[rows])
        value = loss(batch, labels)
        value.backward()
        own, other = (slice(0, 4), slice(4, 7))[:: -1 if turn % 2 else 1]
        assert not batch.grad[:, other].any()
        assert value.item() == pytest.approx(
            NearestMargin(CLASSES, own.stop - own.start)(batch[:, own].detach(), labels).item()
        )


@pytest.mark.parametrize(("done", "by_cluster"), [(0.5, True), (0.97, False)])
def test_later_batches_train_the_whole_embedding(done, by_cluster):
    loss, batches = planned(done=done)
    assert all(len(set(loss.cluster_N[rows])) == 1 for rows in batches) == by_cluster
    batch = torch.randn(6, DIM, generator=torch.Generator().manual_seed(1)).requires_grad_()
    loss.train()(batch, torch.from_numpy(LABELS[batches[0]])).backward()
    assert batch.grad.abs().sum(dim=0).gt(0).sum() == DIM


def test_with_unit_slices_the_lengths_of_slices_do_not_matter():
    loss = DivideAndConquer(CLASSES, DIM, learners=2, unit_slices=True)
    batch, labels = torch.randn(12, DIM, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 4
    longer = torch.cat([batch[:, :4] * 5, batch[:, 4:]], dim=1)
    assert loss(longer, labels).item() == pytest.approx(loss(batch, labels).item(), rel=1e-5)


def test_clusters_are_due_every_few_epochs_until_batches_are_no_longer_by_cluster():
    loss = DivideAndConquer(CLASSES, DIM, learners=2, every=2)
    assert [epoch for epoch in range(1, 11) if loss.needs_update(epoch, (epoch - 1) / 10)] == [1, 3, 5, 7, 9]
    assert not loss.needs_update(9, 0.96)


def test_a_saved_state_keeps_the_clusters():
    loss, _ = planned()
    other = DivideAndConquer(CLASSES, DIM, learners=2)
    other.load_state_dict(loss.state_dict())
    assert other.cluster_N.tolist() == loss.cluster_N.tolist()


def test_bases_with_proxies_and_data_without_pairs_are_refused():
    with pytest.raises(ArgumentError, match="ProxyAnchor, which has proxies"):
        DivideAndConquer(CLASSES, DIM, base="proxy_anchor")
    with pytest.raises(ArgumentError, match="no class has two images"):
        DivideAndConquer(6, DIM).plan(np.arange(6), np.random.default_rng(0), done=0, classes=2, per_class=2)
