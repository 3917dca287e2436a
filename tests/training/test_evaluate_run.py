"""Scores of a run's model: where they are computed."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lookalike.config.experiment import Experiment
from lookalike.training import evaluate_run as module
from lookalike.training.evaluate_run import evaluate_run, score_in_run
from lookalike.training.fit import fit
from lookalike.training.run_dir import RunDir
from lookalike.utils.distributed import Processes
from toys import TOY_SETTINGS, photo_folders

pytestmark = pytest.mark.usefixtures("own_cache")
GPU = torch.device("cuda")


def test_what_is_embedded_on_a_gpu_is_ranked_there(squares, tmp_path, monkeypatch):
    fit(
        photo_folders(tmp_path / "photos"),
        tmp_path / "run",
        Experiment().override([*TOY_SETTINGS, "train.epochs=1"]),
    )
    devices = []

    def embed_nothing(_, table, *, device, progress):
        devices.append(device)
        return SimpleNamespace(matrix=np.eye(len(table), dtype=np.float32))

    def rank_on_the_cpu(*arguments, device, **options):
        devices.append(device)
        return evaluate(*arguments, **options)

    evaluate = module.evaluate
    monkeypatch.setattr(module, "pick_device", lambda name: GPU)
    monkeypatch.setattr(module, "embed", embed_nothing)
    monkeypatch.setattr(module, "evaluate", rank_on_the_cpu)
    evaluate_run(RunDir(tmp_path / "run"), device="cuda")
    score_in_run(
        SimpleNamespace(processes=Processes(), fabric=SimpleNamespace(device=GPU)),
        squares,
        np.eye(len(squares), dtype=np.float32),
    )
    assert devices == [GPU, GPU, GPU]
