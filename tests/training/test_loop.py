"""Steps of the training loop: what is averaged, and in which groups."""

import pytest
import torch
from lightning_fabric import Fabric

from lookalike.config.schema import TrainSettings
from lookalike.losses import LOSSES
from lookalike.models import build_embedder
from lookalike.optim.factory import build_optimizers
from lookalike.training.learner import Learner
from lookalike.training.loop import train
from lookalike.training.step_log import StepLog
from lookalike.training.trainable import TrainablePart
from lookalike.utils import distributed
from lookalike.utils.distributed import Processes

CLASSES, DIM, IMAGES = 5, 8, 20
SETTINGS = TrainSettings(mode="frozen", epochs=1, warmup_epochs=0, lr=1e-3, head_lr=1e-3, proxy_lr=1e-2)


@pytest.fixture
def parts():
    """A network that trains its projection, a loss, pooled vectors and labels."""
    embedder = build_embedder("test_resnet", weights="none", size=32, embedding_dim=DIM)
    draws = torch.Generator().manual_seed(0)
    pooled = torch.randn(IMAGES, embedder.pooled_dim, generator=draws)
    loss = LOSSES["proxy_nca_pp"](CLASSES, DIM, generator=draws)
    return TrainablePart(embedder, "frozen"), loss, pooled, torch.arange(IMAGES) % CLASSES


def gradients(trainable, loss):
    return [p.grad for p in (*trainable.embedder.projection.parameters(), *loss.parameters())]


def test_accumulated_batches_have_the_gradient_of_one_batch_of_all(parts):
    trainable, loss, pooled, labels = parts
    fabric = Fabric(accelerator="cpu", devices=1)
    optimizers = build_optimizers(SETTINGS, trainable, loss, fabric)
    learner = Learner(trainable, loss, optimizers, SETTINGS, fabric, StepLog())
    loss(trainable.embed(pooled), labels).backward()
    whole = [grad.clone() for grad in gradients(trainable, loss)]
    for parameter in optimizers.parameters:
        parameter.grad = None
    for rows in torch.arange(IMAGES).split(5):
        learner.backward(pooled[rows], labels[rows], accumulated=4)
    for mine, other in zip(gradients(trainable, loss), whole, strict=True):
        torch.testing.assert_close(mine, other)


class Pooled:
    """Vectors as inputs of the loop."""

    def __init__(self, vectors, labels):
        self.vectors, self.labels = vectors, labels

    def prepare(self, epoch):
        pass

    def batches(self, rows):
        return ((self.vectors[batch], self.labels[batch]) for batch in rows)


class Fives(list):
    """Batches of five images in order."""

    def set_epoch(self, epoch):
        pass


@pytest.mark.parametrize(("every", "shares"), [(1, [1, 1, 1, 1]), (2, [2, 2, 2, 2]), (3, [3, 3, 3, 1])])
def test_the_last_group_of_an_epoch_is_averaged_over_what_it_has(every, shares, parts, monkeypatch):
    trainable, loss, pooled, labels = parts
    seen, steps = [], []
    monkeypatch.setattr(
        Learner, "backward", lambda self, batch, labels, *, accumulated: seen.append(accumulated) or 0.0
    )
    monkeypatch.setattr(Learner, "step", lambda self: steps.append(len(seen)))
    train(
        trainable,
        loss,
        Pooled(pooled, labels),
        Fives([list(range(first, first + 5)) for first in range(0, IMAGES, 5)]),
        SETTINGS.model_copy(update={"accumulate": every}),
        fabric=Fabric(accelerator="cpu", devices=1),
        seed=0,
        evaluate=None,
    )
    assert seen == shares
    assert steps == [end for end in range(1, 5) if end % every == 0 or end == 4]


@pytest.fixture
def from_main_process(monkeypatch):
    """This is the second of two processes; whatever it is sent by the main one is sevens."""
    monkeypatch.setattr(Processes, "all", classmethod(lambda cls: Processes(1, 2)))
    monkeypatch.setattr(Processes, "sum_", lambda self, x: x)
    monkeypatch.setattr(distributed.dist, "broadcast", lambda x, **_: x.fill_(7))


def test_copies_of_the_proxies_do_not_drift_apart(parts, from_main_process):
    trainable, loss, _, _ = parts
    fabric = Fabric(accelerator="cpu", devices=1)
    optimizers = build_optimizers(SETTINGS, trainable, loss, fabric)
    Learner(trainable, loss, optimizers, SETTINGS, fabric, StepLog()).end_epoch()
    assert (loss.proxies == 7).all()


def test_all_processes_train_from_the_weights_of_the_main_one(parts, from_main_process):
    trainable, loss, pooled, labels = parts
    settings = SETTINGS.model_copy(update={"epochs": 0})
    fabric = Fabric(accelerator="cpu", devices=1)
    inputs = Pooled(pooled, labels)
    train(trainable, loss, inputs, Fives(), settings, fabric=fabric, seed=0, evaluate=None)
    assert all((x == 7).all() for x in (*trainable.embedder.parameters(), *loss.parameters()))
