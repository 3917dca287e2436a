"""Losses of pytorch-metric-learning by name: the package's own values, and what is refused."""

import pytest
import torch
from pytorch_metric_learning import losses, miners

from lookalike.errors import ArgumentError, UnknownNameError
from lookalike.losses import NamedPML
from lookalike.studies import find_study


@pytest.fixture
def batch():
    return torch.randn(12, 6, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 4


def test_value_and_miner_are_the_packages(batch):
    embeddings, labels = batch
    ours = NamedPML(
        4, 6, loss_class="AngularLoss", loss_arguments={"alpha": 30}, miner_class="AngularMiner",
        miner_arguments={"angle": 10},
    )  # fmt: skip
    unit = torch.nn.functional.normalize(embeddings)
    theirs = losses.AngularLoss(alpha=30)(unit, labels, miners.AngularMiner(angle=10)(unit, labels))
    assert ours(embeddings, labels).item() == pytest.approx(theirs.item(), rel=1e-6)


def test_a_loss_with_weights_gets_the_sizes(batch):
    loss = NamedPML(4, 6, loss_class="SphereFaceLoss")
    assert loss.loss.W.shape == (6, 4)
    assert loss(*batch).isfinite()


def test_names_and_arguments_that_do_not_exist_are_refused():
    with pytest.raises(UnknownNameError, match="did you mean 'AngularLoss'"):
        NamedPML(4, 6, loss_class="AngularLos")
    with pytest.raises(UnknownNameError, match="did you mean 'AngularMiner'"):
        NamedPML(4, 6, loss_class="AngularLoss", miner_class="AngularMine")
    with pytest.raises(ArgumentError, match="AngularLoss cannot be built with"):
        NamedPML(4, 6, loss_class="AngularLoss", loss_arguments={"alfa": 30})
    with pytest.raises(ArgumentError, match="name the miner"):
        NamedPML(4, 6, loss_class="AngularLoss", miner_arguments={"angle": 10})


@pytest.mark.parametrize("row", find_study("other_losses/pml").rows, ids=lambda row: row.name)
def test_every_row_of_the_study_can_be_computed(row, batch):
    loss = NamedPML(4, 6, **row.experiment().loss.arguments)
    embeddings, labels = batch
    value = loss(embeddings.requires_grad_(), labels)
    value.backward()
    assert value.isfinite()
