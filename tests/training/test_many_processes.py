"""One process and several train the same model: the command line with --devices, and torchrun."""

import json
import os
import subprocess
import sys

import pytest

from toys import TOY_SETTINGS, photo_folders


def log(run):
    """A record an epoch, the untrained start first."""
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def command(folder, out, *words, launcher=(sys.executable, "-m")):
    """The command line in processes of its own; returns the run's result."""
    whole = [*launcher, "lookalike", "train", "photos", "--out", out, "--quiet", "--device", "cpu", *words]
    environment = {**os.environ, "LOOKALIKE_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(whole, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("report:") == 1
    return json.loads((folder / out / "result.json").read_text())


def train(folder, out, *words, **launcher):
    """A run at toy size: its result and its log."""
    settings = (*TOY_SETTINGS, "train.epochs=2", "batch.size=12")
    result = command(
        folder, out, *(word for name in settings for word in ("--set", name)), *words, **launcher
    )
    return result, log(folder / out)


@pytest.mark.parametrize("mode", ["frozen", "partial", "finetune"])
def test_one_and_several_processes_give_the_same_run(mode, tmp_path):
    photo_folders(tmp_path / "photos")
    words = [
        "--set",
        f"train.mode={mode}",
        "--set",
        "data.crop_scale=[1, 1]",
    ]
    result, history = train(tmp_path, "one", *words)
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=3", "-m")
    others = [train(tmp_path, "two", "--devices", "2", *words)]
    if mode == "frozen":
        others.append(train(tmp_path, "three", *words, launcher=torchrun))
    for other, its_history in others:
        for one, two in zip(history[1:], its_history[1:], strict=True):
            assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
        assert other["test"]["counts"] == result["test"]["counts"]
        assert other["validation"]["map_at_r"] == pytest.approx(result["validation"]["map_at_r"], abs=1e-3)


BROKEN = """
import os
from lookalike.training import loop
from lookalike.__main__ import main

step = loop.Learner.backward

def fails(*arguments, **keywords):
    if os.environ["LOCAL_RANK"] == "1":
        raise MemoryError("too little")
    return step(*arguments, **keywords)

loop.Learner.backward = fails
main()
"""


def test_a_process_that_fails_ends_the_others(tmp_path):
    photo_folders(tmp_path / "photos")
    (tmp_path / "broken.py").write_text(BROKEN)
    words = [word for name in TOY_SETTINGS for word in ("--set", name)]
    launcher = (
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc_per_node=2",
        "broken.py",
    )
    done = subprocess.run(
        [*launcher, "train", "photos", "--out", "run", "--device", "cpu", *words],
        cwd=tmp_path,
        env={
            **os.environ,
            "LOOKALIKE_CACHE": str(tmp_path / "cache"),
            "OMP_NUM_THREADS": "1",
            "LOOKALIKE_TIMEOUT": "200",  # on a busy machine the other process would give up first
        },
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode != 0
    told = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert any(line.startswith("error: out of memory in epoch 1, step 1, ") for line in told), done.stderr
    assert "closed by peer" not in done.stderr  # torchrun may end the other process before it says a word


def test_sharded_proxies_train_as_whole_ones_and_continue_in_any_number_of_processes(tmp_path):
    photo_folders(tmp_path / "photos")
    words = [
        "--set",
        "loss.name=norm_softmax",
        "--set",
        "loss.temperature=0.5",
        "--set",
        "train.clip_value=1",
        "--set",
        "train.schedule.name=constant",  # a schedule over all epochs depends on their number
    ]
    whole, history = train(tmp_path, "whole", *words)
    words += ["--set", "train.shard_proxies=true"]
    train(tmp_path, "sharded", *words, "--set", "train.epochs=1", "--devices", "2")
    shards = list((tmp_path / "sharded" / "training_state").glob("select-epoch-1/classes-*.safetensors"))
    assert len(shards) == 2
    yaml = tmp_path / "sharded" / "experiment.yaml"
    yaml.write_text(yaml.read_text().replace("epochs: 1\n", "epochs: 2\n", 1))
    resumed = command(tmp_path, "sharded", "--resume", "--devices", "3")
    assert resumed["validation"] == pytest.approx(whole["validation"], abs=1e-3)
    assert [folder.name for folder in (tmp_path / "sharded" / "training_state").glob("select-*")] == [
        "select-epoch-2"
    ]
    losses = [record["loss"] for record in log(tmp_path / "sharded")[1:]]
    assert losses == pytest.approx([record["loss"] for record in history[1:]], rel=1e-5)
