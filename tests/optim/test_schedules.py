"""Schedules, by hand."""

import pytest

from lookalike.config.schema import ScheduleSettings, TrainSettings
from lookalike.optim.schedules import drop_epochs, lr_factor, replay_schedule


def factors(schedule, epochs, metrics=()):
    return [
        lr_factor(schedule, epoch=e, epochs=epochs, metrics=list(metrics)[: e - 1])
        for e in range(1, epochs + 1)
    ]


def test_constant():
    assert factors(ScheduleSettings(name="constant"), 3) == [1, 1, 1]


def test_step_drops_after_every_so_many_epochs():
    schedule = ScheduleSettings(name="step", gamma=0.5, every=2)
    assert factors(schedule, 6) == [1, 1, 0.5, 0.5, 0.25, 0.25]


def test_step_with_milestones():
    schedule = ScheduleSettings(name="step", gamma=0.1, milestones=(1, 4))
    assert factors(schedule, 5) == pytest.approx([1, 0.1, 0.1, 0.1, 0.01])


def test_cosine_falls_from_one_towards_zero():
    assert factors(ScheduleSettings(name="cosine", warmup=0), 4) == pytest.approx(
        [1, 0.853553, 0.5, 0.146447], abs=1e-6
    )


@pytest.mark.parametrize(
    ("name", "epoch", "done", "factor"),
    [
        ("linear", 1, 0.0, 1),
        ("linear", 1, 0.5, 0.875),
        ("linear", 3, 0.0, 0.5),
        ("linear", 4, 1.0, 0),
        ("cosine", 2, 1.0, 0.5),
        ("cosine", 4, 1.0, 0),
        ("step", 1, 0.9, 1),
        ("constant", 4, 1.0, 1),
    ],
)
def test_linear_and_cosine_fall_with_every_step_and_the_others_with_epochs(name, epoch, done, factor):
    found = lr_factor(ScheduleSettings(name=name, warmup=0), epoch=epoch, epochs=4, metrics=[], done=done)
    assert found == pytest.approx(factor, abs=1e-12)


@pytest.mark.parametrize(
    ("done", "factor"), [(0.0, 0), (0.2, 0.5 * 0.95), (0.4, 0.9), (0.8, 0.8), (1.0, 0.75)]
)
def test_the_rate_rises_during_the_warmup(done, factor):
    schedule = ScheduleSettings(name="linear", warmup=0.1)  # 0.4 of the first of four epochs
    assert lr_factor(schedule, epoch=1, epochs=4, metrics=[], done=done) == pytest.approx(factor)


def test_plateau_waits_for_patience_and_starts_again_after_a_drop():
    schedule = ScheduleSettings(name="plateau", gamma=0.1, patience=1)
    metrics = [0.5, 0.6, 0.6, 0.59, 0.58, 0.7, 0.7]
    assert factors(schedule, 8, metrics) == pytest.approx([1, 1, 1, 1, 0.1, 0.1, 0.1, 0.1])
    assert drop_epochs(schedule, epochs=8, metrics=metrics) == [4]


def test_replay_repeats_the_drops_of_a_plateau_run():
    plateau = ScheduleSettings(name="plateau", gamma=0.1, patience=0)
    metrics = [0.5, 0.5, 0.6, 0.6]
    replay = replay_schedule(TrainSettings(schedule=plateau), drop_epochs(plateau, epochs=4, metrics=metrics))
    assert factors(replay, 5) == pytest.approx(factors(plateau, 5, metrics))
    assert factors(replay_schedule(TrainSettings(schedule=plateau), []), 5) == [1.0] * 5
