"""One optimizer or two: which parameters each holds, and what cannot go together."""

import copy

import pytest
import torch
from lightning_fabric import Fabric

from lookalike.config.experiment import Experiment
from lookalike.config.schema import TrainSettings
from lookalike.errors import ArgumentError, NotFiniteError
from lookalike.losses import LOSSES, Margin, NormSoftmax
from lookalike.models.embedder import build_embedder
from lookalike.optim.factory import build_optimizers
from lookalike.training.trainable import TrainablePart

RATES = {"mode": "frozen", "lr": 1e-3, "head_lr": 1e-2, "proxy_lr": 1e-1}


@pytest.fixture
def trainable():
    return TrainablePart(build_embedder("test_resnet", weights="none", size=32, embedding_dim=4), "frozen")


def built(trainable, loss, **settings):
    fabric = Fabric(accelerator="cpu", devices=1)
    return build_optimizers(TrainSettings(**{**RATES, **settings}), trainable, loss, fabric)


def group_names(optimizers):
    return [[group["name"] for group in optimizer.param_groups] for _, optimizer in optimizers.parts]


def test_every_parameter_that_trains_is_in_a_group(trainable):
    assert group_names(built(trainable, NormSoftmax(3, 4))) == [["head", "proxies"]]
    whole = TrainablePart(trainable.embedder, "finetune")
    assert group_names(built(whole, NormSoftmax(3, 4))) == [["backbone", "head", "proxies"]]
    assert group_names(built(trainable, LOSSES["triplet"](3, 4))) == [["head"]]


@pytest.mark.parametrize("setting", [{"proxy_optimizer": "row_sparse_adamw"}, {"shard_proxies": True}])
def test_proxies_that_are_sparse_or_sharded_have_an_optimizer_of_their_own(trainable, setting):
    assert group_names(built(trainable, NormSoftmax(3, 4), **setting)) == [["head"], ["proxies"]]


def test_a_schedule_scales_the_rates_of_both(trainable):
    optimizers = built(trainable, NormSoftmax(3, 4), proxy_optimizer="row_sparse_adamw")
    optimizers.scale_rates(0.5)
    optimizers.scale_rates(0.1)
    rates = [group["lr"] for _, optimizer in optimizers.parts for group in optimizer.param_groups]
    assert rates == pytest.approx([1e-3, 1e-2])


@pytest.mark.parametrize("proxy_optimizer", ["same", "row_sparse_adamw", "row_sparse_adamw_small"])
def test_a_state_continues_exactly(trainable, proxy_optimizer):
    """Three steps, or two, saved, loaded into new optimizers, and one more."""

    def step(optimizers, loss):
        pooled = torch.randn(5, 192, generator=torch.Generator().manual_seed(0))
        loss(pooled[:, :4] + trainable.embedder.project(pooled) * 0, torch.tensor([0, 0, 2, 2, 2])).backward()
        optimizers.step(TrainSettings(clip_value=0.1))

    loss = NormSoftmax(3, 4, generator=torch.Generator().manual_seed(1))
    optimizers = built(trainable, loss, proxy_optimizer=proxy_optimizer)
    for _ in range(2):
        step(optimizers, loss)
    again = NormSoftmax(3, 4)
    again.load_state_dict(loss.state_dict())
    resumed = built(trainable, again, proxy_optimizer=proxy_optimizer)
    resumed.load_state_dict(copy.deepcopy(optimizers.state_dict()))
    step(optimizers, loss)
    step(resumed, again)
    assert torch.equal(loss.proxies, again.proxies)


def test_reset_moments_are_gone(trainable):
    loss = NormSoftmax(3, 4)
    optimizers = built(trainable, loss, proxy_optimizer="row_sparse_adamw")
    loss(torch.randn(2, 4), torch.tensor([0, 1])).backward()
    optimizers.step(TrainSettings())
    optimizers.reset_state([loss.proxies])
    assert not optimizers.parts[1][1].state


def test_only_matrices_step_row_by_row(trainable):
    with pytest.raises(ArgumentError, match=r"shape \(3,\); only matrices .*proxy_optimizer=same"):
        built(trainable, Margin(3, 4), proxy_optimizer="row_sparse_adamw")


def test_a_group_without_a_rate_is_named(trainable):
    with pytest.raises(ArgumentError, match=r"'proxies'; set train\.proxy_lr"):
        built(trainable, NormSoftmax(3, 4), proxy_lr=None)


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        (["loss.sparse_gradients=true"], "set train.proxy_optimizer=row_sparse_adamw"),
        (
            ["loss.sparse_gradients=true", "train.proxy_optimizer=row_sparse_adamw", "train.clip_value=1"],
            "leave one of the two out",
        ),
        (["train.proxy_optimizer=row_sparse_adamw", "train.clip_norm=1"], "use train.clip_value"),
        (["train.shard_proxies=true", "train.clip_norm=1"], "use train.clip_value"),
        (["train.shard_proxies=true", "train.precision=16-mixed"], "use bf16-mixed or 32-true"),
    ],
)
def test_settings_that_cannot_go_together_are_refused_before_the_run(settings, remedy):
    experiment = Experiment().override(["loss.name=sampled", *settings])
    with pytest.raises(ArgumentError, match=remedy):
        experiment.check()


def test_clipping_reaches_the_proxies_of_their_own_optimizer(trainable):
    loss = NormSoftmax(3, 4)
    optimizers = built(trainable, loss, proxy_optimizer="row_sparse_adamw")
    for parameter in (loss.proxies, *trainable.embedder.projection.parameters()):
        parameter.grad = torch.full_like(parameter, 7.0)
    optimizers.step(TrainSettings(clip_value=0.5))
    moment = optimizers.parts[1][1].state[loss.proxies]["exp_avg"]
    torch.testing.assert_close(moment, torch.full_like(moment, 0.1 * 0.5))


def test_both_steps_of_scaled_gradients_have_the_same_scale_and_skipped_ones_are_counted(trainable):
    loss = NormSoftmax(3, 4)
    settings = TrainSettings(**RATES, proxy_optimizer="row_sparse_adamw")
    optimizers = build_optimizers(settings, trainable, loss, Fabric(accelerator="cpu", devices=1))
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)  # doubles at each step
    optimizers._scaler = scaler
    weight = optimizers.parts[0][1].param_groups[0]["params"][0]
    for gradient, moment, skipped in ((8.0, 0.1, 0), (16.0, 0.19, 0), (float("inf"), 0.19, 1)):
        scaler.scale(torch.ones(()))  # as backward does
        for parameter in (weight, loss.proxies):
            parameter.grad = torch.full_like(parameter, gradient)  # 1, scaled
        optimizers.step(settings)
        found = optimizers.parts[1][1].state[loss.proxies]["exp_avg"]
        torch.testing.assert_close(found, torch.full_like(found, moment))
        assert optimizers.pop_skipped() == skipped
    assert optimizers.scaler_state()["scale"] == 16.0


def with_infinite_gradients(trainable, **settings):
    """Optimizers, their settings, and a proxy loss whose gradients have overflowed."""
    loss, chosen = NormSoftmax(3, 4), TrainSettings(**RATES, **settings)
    optimizers = build_optimizers(chosen, trainable, loss, Fabric(accelerator="cpu", devices=1))
    for parameter in optimizers.parameters:
        parameter.grad = torch.full_like(parameter, float("inf"))
    return optimizers, chosen, loss


def test_a_norm_that_is_not_finite_cannot_be_clipped_to(trainable):
    optimizers, settings, loss = with_infinite_gradients(trainable, clip_norm=1.0)
    before = loss.proxies.clone()
    with pytest.raises(NotFiniteError, match="the gradients are not finite"):
        optimizers.step(settings)
    assert torch.equal(loss.proxies, before)


def test_scaled_gradients_that_overflow_skip_the_step_also_where_they_are_clipped(trainable):
    optimizers, settings, loss = with_infinite_gradients(trainable, clip_norm=1.0)
    optimizers._scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    optimizers._scaler.scale(torch.ones(()))
    before = loss.proxies.clone()
    optimizers.step(settings)
    assert optimizers.pop_skipped() == 1
    assert torch.equal(loss.proxies, before)
