"""Batches and validation classes that cannot work are refused, or named, before anything is written."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from lookalike.config.experiment import Experiment
from lookalike.data.dataset import LabeledImages
from lookalike.data.samplers import BalancedBatches, RandomBatches
from lookalike.errors import ArgumentError, DataError
from lookalike.losses import LOSSES
from lookalike.losses.build import build
from lookalike.losses.chunked import ChunkedProxyLoss
from lookalike.training.checks import check_mode, check_pairs, check_run, check_validation
from lookalike.utils.distributed import Processes

WITHOUT_PROXIES = [
    name for name, kind in LOSSES.items() if build(kind, 5, 4, kind.toy_arguments).proxy_loss is None
]


def loss_of(name):
    return build(LOSSES[name], 5, 4, LOSSES[name].toy_arguments)


@pytest.mark.parametrize("name", WITHOUT_PROXIES)
def test_a_loss_of_pairs_is_not_trained_on_batches_without_pairs(name):
    labels = np.arange(12)
    with pytest.raises(
        ArgumentError, match=r"3 of 3 batches have no two images of one class.*sampler=balanced"
    ):
        check_pairs(loss_of(name), RandomBatches(labels, batch_size=4), labels, name)


def test_some_batches_without_pairs_are_a_warning():
    labels = np.repeat(np.arange(6), 2)
    (warning,) = check_pairs(loss_of("triplet"), RandomBatches(labels, batch_size=3), labels, "triplet")
    assert "of 4 batches have no two images of one class" in warning
    batches = BalancedBatches(labels, classes=2, per_class=2)
    assert check_pairs(loss_of("triplet"), batches, labels, "triplet") == []


def test_losses_with_proxies_need_no_pairs():
    labels = np.arange(12)
    assert check_pairs(loss_of("proxy_nca"), RandomBatches(labels, batch_size=4), labels, "proxy_nca") == []


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_of_feature_maps_is_refused_where_there_are_none(name):
    for mode in ("partial", "finetune"):
        check_mode(name, mode)
    if LOSSES[name].needs_feature_maps:
        with pytest.raises(ArgumentError, match=r"reads feature maps.*use mode partial or finetune"):
            check_mode(name, "frozen")
    else:
        check_mode(name, "frozen")


def is_sharded(name):
    """Whether `train.shard_proxies` takes the loss."""
    return issubclass(LOSSES[name], ChunkedProxyLoss)


def context_of(table, *settings):
    """What `check_run` reads of a run that trains and validates on `table`."""
    experiment = Experiment().override(["train.mode=partial", "batch.size=8", *settings])
    split = SimpleNamespace(train=table, validation=table, test=table)
    return SimpleNamespace(
        experiment=experiment, split=split, mode=experiment.train.mode, processes=Processes()
    )


@pytest.mark.parametrize(
    ("name", "sharded"),
    [*((name, False) for name in LOSSES), *((name, True) for name in LOSSES if is_sharded(name))],
)
def test_every_loss_passes_the_checks_in_the_dimensions_that_it_will_have(name, sharded, squares):
    toys = [f"loss.{key}={json.dumps(value)}" for key, value in LOSSES[name].toy_arguments.items()]
    context = context_of(
        squares, f"loss.name={name}", *toys, "batch.sampler=balanced", f"train.shard_proxies={sharded}"
    )
    assert check_run(context, SimpleNamespace(embedding_dim=20, channels=8)) == []


@pytest.mark.parametrize(("dim", "refused"), [(40, False), (39, True)])
def test_forty_learners_need_forty_dimensions(dim, refused, squares):
    context = context_of(
        squares,
        "loss.name=divide_and_conquer",
        "loss.learners=40",
        "batch.sampler=balanced",
        "batch.classes=4",
    )
    embedder = SimpleNamespace(embedding_dim=dim, channels=8)
    if refused:
        with pytest.raises(ArgumentError, match="learners is 40"):
            check_run(context, embedder)
    else:
        assert check_run(context, embedder) == []


def test_the_checks_allocate_no_proxies(squares):
    context = context_of(squares)
    assert check_run(context, SimpleNamespace(embedding_dim=1 << 40, channels=8)) == []


def held(roles, labels=(0, 0, 1, 1)):
    """Four images of two classes, as a split whose validation and test images they all are."""
    table = LabeledImages(
        Path(), tuple("abcd"), np.array(labels), ("one", "two"), role=np.array(roles), name="held"
    )
    return SimpleNamespace(validation=table, test=table)


QUERY, GALLERY, BOTH = "query", "gallery", "both"


@pytest.mark.parametrize(
    ("roles", "labels", "complaint"),
    [
        ([GALLERY] * 4, (0, 0, 1, 1), "none of these 4 images is a query image"),
        ([QUERY] * 4, (0, 0, 1, 1), "none of these 4 images is a gallery image"),
        (
            [QUERY, QUERY, GALLERY, GALLERY],
            (0, 0, 1, 1),
            "none of the 2 validation classes has a query and another",
        ),
        (
            [BOTH, GALLERY, GALLERY, GALLERY],
            (0, 1, 1, 1),
            "none of the 2 validation classes has a query and another",
        ),
        ([QUERY, GALLERY, GALLERY, GALLERY], (0, 0, 1, 1), None),
        ([BOTH] * 4, (0, 0, 1, 1), None),
    ],
)
def test_validation_images_need_something_to_find(roles, labels, complaint):
    if complaint is None:
        check_validation(held(roles, labels))
    else:
        with pytest.raises(DataError, match=complaint):
            check_validation(held(roles, labels))
