"""The margin loss over nearest negatives, against a hand-worked batch."""

import pytest
import torch

from lookalike.losses import NearestMargin
from lookalike.losses.nearest_margin import nearest_triplets

LINE = torch.tensor([0.0, 1.0, 0.3, 1.2, 1.3, 2.0])
"""Places on a line: samples 0, 1 of class 0, samples 2 to 5 of class 1."""
DISTANCES, LABELS = (LINE[:, None] - LINE).abs(), torch.tensor([0, 0, 1, 1, 1, 1])


def test_triplets_of_a_hand_worked_batch():
    # 14 ordered positive pairs in 6 samples: 2 negatives each, none nearer than 0.5
    anchors, positives, negatives = (rows.tolist() for rows in nearest_triplets(DISTANCES, LABELS, 0.5))
    of_anchor = {a: [] for a in range(6)}
    for a, p, n in zip(anchors, positives, negatives, strict=True):
        of_anchor[a].append((p, n))
    assert of_anchor == {
        0: [(1, 3)],  # nearest are 3 and 4; one positive, so the first of them
        1: [(0, 2)],  # 3 and 4 are within 0.5; nearest are 2 and 5
        2: [(3, 1)],  # 0 is within 0.5
        3: [(2, 0)],
        4: [(2, 0)],
        5: [(2, 0), (3, 1)],
    }


def test_the_two_counts_divide_the_same_sum():
    embeddings = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(12) % 3
    unit = torch.nn.functional.normalize(embeddings, dim=1)
    a, p, n = nearest_triplets(torch.cdist(unit, unit), labels, 0.5)
    far = (unit[a] - unit[p]).norm(dim=1) - 1.2 + 0.2
    near = 1.2 - (unit[a] - unit[n]).norm(dim=1) + 0.2
    total = far.clamp_min(0).sum() + near.clamp_min(0).sum()
    counts = {"terms": (far > 0).sum() + (near > 0).sum(), "triplets": ((far > 0) | (near > 0)).sum()}
    assert counts["terms"] > counts["triplets"]
    for divide_by, count in counts.items():
        value = NearestMargin(3, 4, divide_by=divide_by)(embeddings, labels)
        assert value.item() == pytest.approx((total / count).item(), rel=1e-5)
