"""Nothing is lost when a training is ended at any moment, or its disk is full."""

import pytest
from benchmarks.faults import disk_trials, kill_trials, overwrite_trials

from faults.conftest import SETTINGS


@pytest.mark.parametrize("mode", ["frozen", "partial", "finetune"])
def test_signals_at_random_moments_lose_nothing(mode, commands, photos):
    settings = [*SETTINGS, "--set", f"train.mode={mode}"]
    tally = kill_trials(commands, photos, settings, kills=3, seed=1, name=mode)
    assert tally.injected >= 3
    assert tally.problems == []


def test_a_replaced_run_never_pairs_an_old_model_with_new_settings(commands, photos):
    other = [*SETTINGS, "--set", "model.embedding_dim=4"]
    tally = overwrite_trials(commands, photos, SETTINGS, other, kills=1, seed=2)
    assert tally.problems == []


def test_a_full_disk_is_one_line_and_the_next_command_continues(commands, photos):
    tally = disk_trials(commands, photos, SETTINGS, limits=3, seed=3)
    assert tally.injected > 0
    assert tally.problems == []
