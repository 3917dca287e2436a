"""The classes nested in their groups."""

import json

from lookalike.losses.class_tree import build_tree, leaves

NAMES = ["oak", "pine", "tulip", "<rose>"]
TREE = build_tree([[0, 0, 1, 2], [0, 0, 1, 1]], NAMES)


def test_classes_are_nested_in_their_groups():
    assert TREE == {
        "name": "all classes",
        "children": [
            {
                "name": "group 0",
                "children": [{"name": "group 0", "children": [{"name": "oak"}, {"name": "pine"}]}],
            },
            {
                "name": "group 1",
                "children": [
                    {"name": "group 1", "children": [{"name": "tulip"}]},
                    {"name": "group 2", "children": [{"name": "<rose>"}]},
                ],
            },
        ],
    }
    assert json.loads(json.dumps(TREE)) == TREE
    assert leaves(TREE) == 4
