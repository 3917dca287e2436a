"""One process and several train the same model: started with --devices, by torchrun, or as torchrun does."""

import json
import os
import subprocess
import sys

import pytest

from toys import TOY_SETTINGS, photo_folders

SETTINGS = [word for name in (*TOY_SETTINGS, "batch.size=12") for word in ("--set", name)]
QUIET = ["--quiet", "--device", "cpu"]


@pytest.fixture
def folder(commands):
    """The folder in which commands run, with a folder of photos."""
    photo_folders(commands.folder / "photos")
    return commands.folder


def finished(run, printed):
    """A run's result and its log, a record per epoch, the untrained start first."""
    assert printed.count("report:") == 1
    records = (run / "log.jsonl").read_text().splitlines()
    return json.loads((run / "result.json").read_text()), [json.loads(record) for record in records]


def train(commands, out, *words, ranks=1):
    """A run at toy size in `ranks` processes."""
    code, printed = commands.run("train", "photos", "--out", out, *QUIET, *words, ranks=ranks)
    assert code == 0, printed
    return finished(commands.folder / out, printed)


def torchrun(ranks):
    """Words after Python's that start a script or module in so many processes."""
    return ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]


def launch(folder, out, *words, launcher=()):
    """The same, started as a person does: by `launcher`, or by the command, which starts the other processes."""
    done = subprocess.run(
        [sys.executable, *launcher, "-m", "lookalike", "train", "photos", "--out", out, *QUIET, *words],
        cwd=folder,
        env={**os.environ, "LOOKALIKE_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return finished(folder / out, done.stdout)


@pytest.mark.parametrize("mode", ["frozen", "partial", "finetune"])
def test_one_and_several_processes_give_the_same_run(mode, commands, folder):
    words = [*SETTINGS, "--set", f"train.mode={mode}", "--set", "data.crop_scale=[1, 1]"]
    result, history = train(commands, "one", *words)
    others = [train(commands, "two", *words, ranks=2)]
    if mode == "frozen":
        others.append(train(commands, "three", *words, ranks=3))
        others.append(launch(folder, "devices", *words, "--devices", "2"))
        others.append(launch(folder, "torchrun", *words, launcher=torchrun(2)))
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
    words = ["train", "photos", "--out", "run", "--device", "cpu", *SETTINGS]
    done = subprocess.run(
        [sys.executable, *torchrun(2), "broken.py", *words],
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


def test_sharded_proxies_train_as_whole_ones_and_continue_in_any_number_of_processes(commands, folder):
    words = [
        *SETTINGS,
        "--set",
        "loss.name=norm_softmax",
        "--set",
        "loss.temperature=0.5",
        "--set",
        "train.clip_value=1",
        "--set",
        "train.schedule.name=constant",  # a schedule over all epochs depends on their number
    ]
    whole, history = train(commands, "whole", *words)
    words += ["--set", "train.shard_proxies=true", "--set", "train.epochs=1"]
    train(commands, "sharded", *words, ranks=2)
    sharded = folder / "sharded"
    assert len(list((sharded / "training_state").glob("select-epoch-1/classes-*.safetensors"))) == 2
    yaml = sharded / "experiment.yaml"
    yaml.write_text(yaml.read_text().replace("epochs: 1\n", "epochs: 2\n", 1))
    resumed, continued = train(commands, "sharded", "--resume", ranks=3)
    assert resumed["validation"] == pytest.approx(whole["validation"], abs=1e-3)
    assert [state.name for state in (sharded / "training_state").glob("select-*")] == ["select-epoch-2"]
    losses = [record["loss"] for record in continued[1:]]
    assert losses == pytest.approx([record["loss"] for record in history[1:]], rel=1e-5)
