"""What is said while a stage trains."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import torch

from lookalike.training import stage
from lookalike.training.stage import Validation

GOOD = np.eye(8, dtype=np.float32)
COLLAPSED = np.ones((8, 8), dtype=np.float32)


def test_a_collapse_is_said_when_it_begins_and_not_at_every_epoch(monkeypatch):
    said, epochs = [], [GOOD, COLLAPSED, COLLAPSED, GOOD, COLLAPSED]
    left = iter(epochs)
    monkeypatch.setattr(stage, "embed_all", lambda *_, project: torch.from_numpy(next(left)))
    monkeypatch.setattr(stage, "score_in_run", lambda *_: SimpleNamespace(to_dict=dict))
    context = SimpleNamespace(
        clock=SimpleNamespace(phase=lambda _: nullcontext()), progress=SimpleNamespace(warn=said.append)
    )
    inputs = SimpleNamespace(table=SimpleNamespace(labels=np.arange(8) // 2))
    validation = Validation(context, None, inputs)
    for _ in epochs:
        validation.measure()
    assert len(said) == 2
    assert all("collapsed" in line for line in said)
