"""The search over settings: failed trials, killed ones, two processes, and what each sampler finds."""

import pytest
from filelock import FileLock

from lookalike.errors import ArgumentError, TrainingError
from lookalike.losses.search_range import SearchRange
from lookalike.studies.protocols import Busy
from lookalike.studies.protocols.hyperparameter_search import search
from lookalike.studies.protocols.search_spaces import Searched

PARABOLA = (
    Searched("loss.scale", SearchRange("scale", 0.0, 10.0)),
    Searched("loss.margin", SearchRange("margin", 0.0, 1.0)),
)


def parabola(values, folder):
    return -((values["loss.scale"] - 3) ** 2) - (values["loss.margin"] - 0.5) ** 2


def test_a_trial_that_a_loss_refuses_is_recorded_as_failed_and_never_repeated(tmp_path):
    """Margins below 0.5 are refused; two calls run as many trials as one."""
    tried = []

    def refusing(values, folder):
        tried.append(values)
        if values["loss.margin"] < 0.5:
            raise ArgumentError("margin is too small")
        return parabola(values, folder)

    found = search(tmp_path, PARABOLA, refusing, trials=8, sampler="tpe")
    again = search(tmp_path, PARABOLA, refusing, trials=8, sampler="tpe")
    assert again == found
    assert len(tried) == 8
    failed = [slot for slot in found["slots"] if slot["value"] is None]
    assert failed
    assert all(slot["error"] == "margin is too small" for slot in failed)
    assert found["values"]["loss.margin"] >= 0.5


def test_a_search_of_failures_only_says_the_last_one(tmp_path):
    def broken(values, folder):
        raise TrainingError("the loss is not finite")

    with pytest.raises(TrainingError, match=r"all 2 trials in .* failed; the last: the loss is not finite"):
        search(tmp_path, PARABOLA, broken, trials=2, sampler="tpe")


def test_the_best_slot_wins_and_a_second_call_runs_nothing(tmp_path):
    found = search(tmp_path, PARABOLA, parabola, trials=6, sampler="tpe")
    assert found["value"] == max(slot["value"] for slot in found["slots"])
    assert len(found["slots"]) == 6

    def never(values, folder):
        raise AssertionError("a finished slot was run again")

    assert search(tmp_path, PARABOLA, never, trials=6, sampler="tpe") == found


def test_a_killed_trial_is_run_again_with_the_same_settings_and_no_trial_is_lost(tmp_path):
    tried = []

    def killed_in_the_third(values, folder):
        tried.append(values)
        if len(tried) == 3:
            raise KeyboardInterrupt
        return parabola(values, folder)

    with pytest.raises(KeyboardInterrupt):
        search(tmp_path, PARABOLA, killed_in_the_third, trials=4, sampler="tpe")
    found = search(tmp_path, PARABOLA, killed_in_the_third, trials=4, sampler="tpe")
    assert len(found["slots"]) == 4
    assert tried[3] == tried[2]
    assert len(tried) == 5


def test_slots_of_another_process_are_left_to_it(tmp_path):
    tmp_path.joinpath("search").mkdir()
    ran = []

    def objective(values, folder):
        ran.append(folder.name)
        return parabola(values, folder)

    with FileLock(tmp_path / "search" / "slot-001.lock"), pytest.raises(Busy, match="1 of 3 trials"):
        search(tmp_path / "search", PARABOLA, objective, trials=3, sampler="tpe")
    assert ran == ["slot-000", "slot-002"]
    assert len(search(tmp_path / "search", PARABOLA, objective, trials=3, sampler="tpe")["slots"]) == 3


def test_both_samplers_find_better_than_the_first_guess(tmp_path):
    for sampler in ("tpe", "gp"):
        found = search(tmp_path / sampler, PARABOLA, parabola, trials=12, sampler=sampler)
        assert found["value"] > found["slots"][0]["value"]
