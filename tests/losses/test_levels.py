import numpy as np
import pytest
import torch

from lookalike.errors import ArgumentError
from lookalike.losses.levels import chain, group_means, level_sizes, one_per_level


def test_groups_of_classes_become_parents_of_groups():
    first, second = chain([[0, 0, 1, 2], np.array([1, 1, 1, 0])], 4)
    assert first.tolist() == [0, 0, 1, 2]
    assert second.tolist() == [1, 1, 0]  # of groups 0, 1 and 2


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([[0, 0, 1]], r"parents\[0\] must give each of 4 classes a group, from 0 without gaps"),
        ([[0, 0, 2, 2]], r"parents\[0\] must give each of 4 classes a group"),
        ([[-1, 0, 1, 1]], r"parents\[0\] must give each of 4 classes a group"),
        ([[0, 0, 1, 1], [0, 1, 1, 1]], r"parents\[1\] splits a group of the level before \(class 0\)"),
    ],
)
def test_invalid_hierarchies_are_refused(parents, message):
    with pytest.raises(ArgumentError, match=message):
        chain(parents, 4)


def test_sizes_of_levels():
    assert level_sizes(100, None, None) == [100, 10]
    assert level_sizes(100, (20, 5), None) == [100, 20, 5]
    assert level_sizes(4, None, chain([[0, 0, 1, 2], [0, 0, 1, 1]], 4)) == [4, 3, 2]


@pytest.mark.parametrize(
    ("coarse", "message"),
    [
        (None, "coarse has 10 groups on a level above 8; lower it to 8 or fewer"),
        ((4, 5), "coarse has 5 groups on a level above 4"),
        ((1,), r"coarse \(groups of a level\) is 1; it must be at least 2"),
        ((), "coarse is empty"),
    ],
)
def test_invalid_sizes_are_refused(coarse, message):
    with pytest.raises(ArgumentError, match=message):
        level_sizes(8, coarse, None)


def test_sizes_and_a_given_hierarchy_must_agree():
    with pytest.raises(ArgumentError, match=r"coarse is \[3\], but parents have \[2\]; leave coarse out"):
        level_sizes(3, (3,), chain([[0, 0, 1]], 3))


def test_one_value_per_level():
    assert one_per_level("level_weights", None, 3, 1.0) == [1.0, 1.0, 1.0]
    assert one_per_level("level_weights", (1.0, 0.5), 2, 1.0) == [1.0, 0.5]
    with pytest.raises(ArgumentError, match="level_weights has 1 entries; expected one per level, 2"):
        one_per_level("level_weights", (1.0,), 2, 1.0)


def test_group_means_by_hand():
    proxies = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0], [-1.0, 0.0], [1.0, 0.0], [0.0, -5.0]])
    one = group_means(proxies, torch.tensor([0, 0, 1, 1, 1, 1]), 2)
    torch.testing.assert_close(one, torch.tensor([[0.5, 0.5], [0.0, 0.0]]))
    two = group_means(proxies, torch.tensor([0, 1, 0]), 2)  # classes of two proxies
    torch.testing.assert_close(two, torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]))
