"""One process and several train the same model: the command line with --devices, and torchrun."""

import json
import os
import subprocess
import sys

import pytest

from lookalike.tensor_tree import load_tree
from toys import TOY_SETTINGS, photo_folders


def train(folder, out, *words, launcher=(sys.executable, "-m")):
    """The command line in processes of its own."""
    settings = [
        word for name in (*TOY_SETTINGS, "train.epochs=2", "batch.size=12") for word in ("--set", name)
    ]
    command = [
        *launcher,
        "lookalike",
        "train",
        "photos",
        "--out",
        out,
        "--quiet",
        "--device",
        "cpu",
        *settings,
        *words,
    ]
    environment = {**os.environ, "LOOKALIKE_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("report:") == 1
    return json.loads((folder / out / "result.json").read_text()), load_tree(
        folder / out / "training_state" / "select"
    )


@pytest.mark.parametrize("mode", ["frozen", "finetune"])
def test_one_and_several_processes_give_the_same_run(mode, tmp_path):
    photo_folders(tmp_path / "photos")
    words = [
        "--set",
        f"train.mode={mode}",
        "--set",
        "data.crop_scale=[1, 1]",
        "--set",
        "data.crop_ratio=[1, 1]",
    ]
    result, state = train(tmp_path, "one", *words)
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=3", "-m")
    others = [train(tmp_path, "two", "--devices", "2", *words)]
    if mode == "frozen":
        others.append(train(tmp_path, "three", *words, launcher=torchrun))
    for other, its_state in others:
        for one, two in zip(state["history"][1:], its_state["history"][1:], strict=True):
            assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
        assert other["test"]["counts"] == result["test"]["counts"]
        assert other["validation"]["map_at_r"] == pytest.approx(result["validation"]["map_at_r"], abs=1e-3)
