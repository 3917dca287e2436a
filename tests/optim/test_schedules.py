"""Schedules, by hand."""

import pytest

from lookalike.config.schema import ScheduleSettings
from lookalike.optim.schedules import drops, lr_factor


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
    assert factors(ScheduleSettings(name="cosine"), 4) == pytest.approx(
        [1, 0.853553, 0.5, 0.146447], abs=1e-6
    )


def test_plateau_waits_for_patience_and_starts_anew_after_a_drop():
    schedule = ScheduleSettings(name="plateau", gamma=0.1, patience=1)
    metrics = [0.5, 0.6, 0.6, 0.59, 0.58, 0.7, 0.7]
    assert factors(schedule, 8, metrics) == pytest.approx([1, 1, 1, 1, 0.1, 0.1, 0.1, 0.1])
    assert drops(schedule, epochs=8, metrics=metrics) == [4]


def test_replay_repeats_the_drops_of_a_plateau_run():
    plateau = ScheduleSettings(name="plateau", gamma=0.1, patience=0)
    metrics = [0.5, 0.5, 0.6, 0.6]
    replay = ScheduleSettings(
        name="replay", gamma=0.1, milestones=tuple(drops(plateau, epochs=4, metrics=metrics))
    )
    assert factors(replay, 5) == pytest.approx(factors(plateau, 5, metrics))
