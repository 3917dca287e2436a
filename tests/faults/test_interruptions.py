"""Nothing is lost when a command is ended at any moment, its disk is full, or one of its processes fails."""

import pytest
from benchmarks.faults.interruptions import disk_trials, kill_trials, overwrite_trials
from benchmarks.faults.jobs import other_jobs, training
from benchmarks.faults.ranks import rank_trials

from faults.conftest import SETTINGS


@pytest.mark.parametrize(("mode", "ranks"), [("frozen", 1), ("partial", 1), ("finetune", 2)])
def test_signals_at_random_moments_lose_nothing(mode, ranks, commands, photos):
    job = training(mode, photos, [*SETTINGS, "--set", f"train.mode={mode}"], ranks=ranks)
    tally = kill_trials(commands, job, kills=2, seed=1)
    assert tally.injected >= 2
    assert tally.problems == []


@pytest.mark.parametrize("name", ["embed", "index", "data add", "study run"])
def test_other_commands_lose_nothing_either(name, commands, photos):
    job = next(job for job in other_jobs(photos, SETTINGS, commands.folder) if job.name == name)
    tally = kill_trials(commands, job, kills=1, seed=1)
    assert tally.injected >= 1
    assert tally.problems == []


def test_a_process_that_dies_or_hangs_ends_the_other(commands, photos):
    for tally in rank_trials(commands, training("two", photos, SETTINGS, ranks=2)):
        assert tally.injected == 2
        assert tally.problems == []


def test_a_replaced_run_never_pairs_an_old_model_with_new_settings(commands, photos):
    other = [*SETTINGS, "--set", "model.embedding_dim=4"]
    jobs = (training("first", photos, SETTINGS), training("second", photos, other))
    tally = overwrite_trials(commands, *jobs, kills=1, seed=2)
    assert tally.problems == []


@pytest.mark.parametrize("name", ["train", "embed", "index", "data add", "evaluate", "data check"])
def test_a_full_disk_is_one_line_and_the_next_command_goes_on(name, commands, photos):
    jobs = [training("train", photos, SETTINGS), *other_jobs(photos, SETTINGS, commands.folder)]
    tally = disk_trials(commands, next(job for job in jobs if job.name == name), limits=1, seed=3)
    assert tally.injected > 0
    assert tally.problems == []
