"""Batches without pairs are counted, and said."""

import pytest
import torch

from lookalike.losses import LOSSES, PairCounts
from lookalike.losses.build import build
from lookalike.losses.pair_loss import PairLoss

PAIRS = [name for name, kind in LOSSES.items() if issubclass(kind, PairLoss)]
EMBEDDINGS = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", PAIRS)
def test_batches_in_which_no_class_comes_twice_are_counted(name):
    loss = build(LOSSES[name], 9, 4, LOSSES[name].toy_arguments)
    for labels in ([0, 1, 2, 3], [0, 0, 1, 1], [5, 6, 7, 8]):
        loss(EMBEDDINGS, torch.tensor(labels))
    loss.eval()(EMBEDDINGS, torch.arange(4))
    counts = loss.pop_pair_counts()
    assert (counts.batches, counts.without_positives) == (3, 2)
    assert counts.without_pairs in (2, 3)
    assert counts.warning.startswith("2 of 3 batches have no two images of one class")
    assert loss.pop_pair_counts() == PairCounts()


def test_batches_from_which_the_miner_takes_nothing_are_counted_apart():
    """Two tight classes far apart have no semi-hard triplet."""
    loss = LOSSES["triplet_semihard"](2, 2)
    loss(torch.tensor([[1.0, 0.0], [1.0, 0.1], [-1.0, 0.0], [-1.0, 0.1]]), torch.tensor([0, 0, 1, 1]))
    counts = loss.pop_pair_counts()
    assert counts == PairCounts(batches=1, without_positives=0, without_pairs=1)
    assert counts.warning is None


def test_a_loss_around_a_loss_of_pairs_passes_its_counts_on():
    loss = LOSSES["horde"](5, 4, **LOSSES["horde"].toy_arguments)
    loss(EMBEDDINGS, torch.arange(4), torch.randn(4, 3, 2, 2))
    assert loss.pop_pair_counts() == PairCounts(1, 1, 1)


def test_losses_of_proxies_have_no_counts():
    assert LOSSES["proxy_anchor"](5, 4).pop_pair_counts() is None
