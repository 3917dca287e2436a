"""The contrastive loss on cosines: by hand, and against loops."""

import numpy as np
import pytest
import torch

from lookalike.losses import LOSSES


def test_hand_worked_cosine_contrastive():
    """Unit vectors at 0, 60 and 30 degrees, of classes 0, 0 and 1: positives have cosine 1/2, negatives sqrt(3)/2."""
    angles = torch.tensor([0.0, 60.0, 30.0]).deg2rad()
    loss = LOSSES["cosine_contrastive"](2, 2)
    value = loss(3 * torch.stack([angles.cos(), angles.sin()], dim=1), torch.tensor([0, 0, 1]))
    assert value.item() == pytest.approx(0.25 / 2 + (3**0.5 / 2 - 0.5) / 2, rel=1e-6)


def test_inactive_negatives_and_missing_positives_count_for_nothing():
    loss = LOSSES["cosine_contrastive"](3, 3)
    assert loss(torch.eye(3), torch.arange(3)).item() == 0.0


def test_against_loops():
    draws = np.random.default_rng(0)
    x, labels = draws.normal(size=(9, 4)), draws.integers(0, 3, 9)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    pulls, pushes = [], []
    for i in range(9):
        for j in range(9):
            cosine = unit[i] @ unit[j]
            if i != j and labels[i] == labels[j]:
                pulls.append((1 - cosine) ** 2)
            if labels[i] != labels[j] and cosine > 0.2:
                pushes.append(cosine - 0.2)
    loss = LOSSES["cosine_contrastive"](3, 4, negative_margin=0.2)
    value = loss(torch.tensor(x), torch.tensor(labels)).item()
    assert value == pytest.approx(np.mean(pulls) / 2 + np.mean(pushes) / 2, rel=1e-6)
