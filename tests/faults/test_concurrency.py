"""Two commands at once: one waits or is told, and nothing is mixed."""

import json
import signal
import time

import pytest
from benchmarks.faults.compare import differences, run_traces

from faults.conftest import SETTINGS


def finish(started):
    """Exit codes and outputs of commands that run at the same time."""
    ended = [running.wait() for running in started]
    return sorted((code, printed) for (code,), printed in ended)


def test_two_trainings_into_one_directory_are_one_and_a_message(commands, photos):
    words = ["train", photos, "--quiet", "--out", "run", *SETTINGS]
    (good, _), (bad, told) = finish([commands.start(*words) for _ in range(2)])
    assert (good, bad) == (0, 1)
    assert "another process is training in 'run'" in told or "'run' already contains a run" in told
    log = [json.loads(line) for line in (commands.folder / "run" / "log.jsonl").read_text().splitlines()]
    select = [record["epoch"] for record in log if record["stage"] == "select"]
    assert select == list(range(len(select)))


def test_two_resumes_at_once_give_the_uninterrupted_run(commands, photos):
    words = ["train", photos, "--quiet", *SETTINGS]
    assert commands.run(*words, "--out", "whole")[0] == 0
    running = commands.start(*words, "--out", "run")
    while not (commands.folder / "run" / "training_state" / "select.json").exists():
        time.sleep(0.01)
    running.send(signal.SIGKILL)
    running.wait()
    resume = ["train", photos, "--quiet", "--out", "run", "--resume"]
    for code, printed in finish([commands.start(*resume) for _ in range(2)]):
        assert code == 0 or "another process is training in 'run'" in printed
    assert differences(run_traces(commands.folder / "whole"), run_traces(commands.folder / "run")) == []


def test_two_runs_that_fill_one_cache_entry_share_it(commands, photos):
    words = ["train", photos, "--quiet", *SETTINGS, "--set", "train.mode=partial"]
    done = finish([commands.start(*words, "--out", f"run{number}") for number in range(2)])
    assert [code for code, _ in done] == [0, 0]
    assert differences(run_traces(commands.folder / "run0"), run_traces(commands.folder / "run1")) == []
    entries = {file.stem for file in (commands.folder / "cache" / "activations").glob("*.npy")}
    assert len(entries) == len(list((commands.folder / "cache" / "activations").glob("*.json")))


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_process_that_is_stopped_for_a_while_goes_on_to_the_same_end(ranks, commands, photos):
    """As Ctrl-Z, a suspended laptop or a paused container does."""
    words = ["train", photos, "--quiet", *SETTINGS]
    assert commands.run(*words, "--out", "whole", ranks=ranks)[0] == 0
    running = commands.start(*words, "--out", "run", ranks=ranks)
    while not (commands.folder / "run" / "training_state" / "select.json").exists():
        time.sleep(0.01)
    running.send(signal.SIGSTOP, ranks - 1)
    time.sleep(2)
    running.send(signal.SIGCONT, ranks - 1)
    codes, printed = running.wait()
    assert codes == [0] * ranks, printed
    assert differences(run_traces(commands.folder / "whole"), run_traces(commands.folder / "run")) == []
