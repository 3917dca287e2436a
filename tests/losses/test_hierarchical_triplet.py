"""HTL: the tree of the classes, its margins, and batches of neighborhoods."""

import itertools

import numpy as np
import pytest
import torch

from lookalike.errors import ArgumentError
from lookalike.losses import HierarchicalTriplet

LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4])


def looked(dtype=torch.float64, **settings):
    """A loss with the tree of twelve random images, and the images."""
    unit = torch.nn.functional.normalize(
        torch.randn(len(LABELS), 6, generator=torch.Generator().manual_seed(0), dtype=dtype), dim=1
    )
    loss = HierarchicalTriplet(5, 6, **settings).to(dtype)
    loss.update(unit, LABELS)
    return loss, unit


def squared(unit, rows, others):
    return [float((unit[i] - unit[j]).square().sum()) for i in rows for j in others if i != j]


def rows_of(*classes):
    return [row for row, label in enumerate(LABELS.tolist()) if label in classes]


def test_spreads_and_thresholds_are_mean_squared_distances():
    loss, unit = looked(levels=4)
    spreads = [np.mean(squared(unit, rows_of(c), rows_of(c))) for c in range(5)]
    assert loss.spread_C.tolist() == pytest.approx(spreads, rel=1e-6)
    assert loss.threshold_L.tolist() == pytest.approx(np.linspace(np.mean(spreads), 4, 5).tolist(), rel=1e-6)


def test_components_are_joined_by_chains_of_near_classes():
    loss, unit = looked(levels=8, merge="components")
    distance = np.array(
        [[np.mean(squared(unit, rows_of(p), rows_of(q))) for q in range(5)] for p in range(5)]
    )
    for threshold, nodes in zip(loss.threshold_L.tolist(), loss.node_LC.tolist(), strict=True):
        reach = (distance < threshold) | np.eye(5, dtype=bool)
        for _ in range(5):
            reach = reach @ reach
        assert (np.equal.outer(nodes, nodes) == reach).all()


def test_average_linkage_joins_the_two_nearest_nodes_until_none_is_nearer():
    loss, unit = looked(levels=8)
    for threshold, nodes in zip(loss.threshold_L.tolist(), loss.node_LC.tolist(), strict=True):
        groups = [(c,) for c in range(5)]
        while len(groups) > 1:
            distance, p, q = min(
                (np.mean(squared(unit, rows_of(*p), rows_of(*q))), p, q)
                for p, q in itertools.combinations(groups, 2)
            )
            if distance >= threshold:
                break
            groups = [group for group in groups if group not in (p, q)] + [p + q]
        assert {frozenset(group) for group in groups} == {
            frozenset(c for c in range(5) if nodes[c] == node) for node in nodes
        }


def test_the_margin_is_that_of_the_lowest_common_node():
    loss, _ = looked(levels=8)
    margins = loss.margins(torch.arange(5))
    for a, n in itertools.permutations(range(5), 2):
        level = next(i for i in range(9) if loss.node_LC[i, a] == loss.node_LC[i, n])
        expected = 0.1 + loss.threshold_L[level] - loss.spread_C[a]
        assert margins[a, n].item() == pytest.approx(expected.item())


def test_the_loss_is_half_the_mean_over_all_triplets():
    loss, unit = looked()
    margins = loss.margins(LABELS)
    terms = [
        max(
            0.0,
            float((unit[a] - unit[p]).square().sum() - (unit[a] - unit[n]).square().sum() + margins[a, n]),
        )
        for a, p, n in itertools.product(range(12), repeat=3)
        if a != p and LABELS[a] == LABELS[p] != LABELS[n]
    ]
    assert loss(unit, LABELS).item() == pytest.approx(np.mean(terms) / 2, rel=1e-6)


def test_before_the_first_tree_the_margin_is_beta():
    assert HierarchicalTriplet(5, 6, beta=0.3).margins(LABELS).unique().tolist() == pytest.approx([0.3])


def test_a_class_of_one_image_has_the_mean_spread_and_is_in_no_batch():
    labels = torch.cat([LABELS[:-1], torch.tensor([3])])
    unit = torch.nn.functional.normalize(
        torch.randn(12, 6, generator=torch.Generator().manual_seed(1)), dim=1
    )
    loss = HierarchicalTriplet(5, 6, neighborhood=2)
    loss.update(unit, labels)
    assert loss.spread_C[4].item() == pytest.approx(loss.spread_C[:4].mean().item())
    plan = loss.plan(labels.numpy(), np.random.default_rng(0), done=0, classes=4, per_class=2)
    assert all(set(labels[rows].tolist()) == {0, 1, 2, 3} for rows in plan)


def test_a_batch_is_a_random_class_with_its_nearest():
    loss, _ = looked(neighborhood=3)
    nearest = (loss.mean_CD @ loss.mean_CD.T).numpy()
    for rows in loss.plan(LABELS.numpy(), np.random.default_rng(0), done=0, classes=3, per_class=2):
        classes = list(dict.fromkeys(LABELS[rows].tolist()))
        others = sorted(set(range(5)) - {classes[0]}, key=lambda c: -nearest[classes[0], c])
        assert classes[1:] == others[:2]
        assert len(set(rows)) == 6


def test_batches_that_are_not_of_whole_neighborhoods_are_refused():
    loss, _ = looked(neighborhood=3)
    for classes in (4, 6):
        with pytest.raises(ArgumentError, match=f"batch.classes is {classes}; .* at most the 5 classes"):
            loss.plan(LABELS.numpy(), np.random.default_rng(0), done=0, classes=classes, per_class=2)


def test_a_saved_state_keeps_the_tree():
    loss, unit = looked()
    other = HierarchicalTriplet(5, 6).double()
    other.load_state_dict(loss.state_dict())
    assert other(unit, LABELS).item() == loss(unit, LABELS).item()
