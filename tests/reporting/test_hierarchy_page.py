import json

from lookalike.losses.class_tree import build_tree, leaves, tree_text
from lookalike.reporting.hierarchy_page import tree_page

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


def test_groups_can_be_named():
    tree = build_tree([[1, 1, 0, 0]], NAMES, [["flowers", "trees"]])
    assert tree_text(tree).splitlines() == [
        "all classes (4)",
        "  flowers (2)",
        "    tulip",
        "    <rose>",
        "  trees (2)",
        "    oak",
        "    pine",
    ]


def test_the_page_stands_alone_and_shows_names_as_they_are():
    page = tree_page(TREE, title="Trees & flowers")
    assert page.startswith("<!doctype html>")
    assert "http" not in page
    assert "<title>Trees &amp; flowers</title>" in page
    assert "&lt;rose&gt;" in page
    assert "<rose>" not in page
    assert page.count("<details") == page.count("</details>") == 6
    assert all(f"<li>{name}</li>" in page for name in ("oak", "pine", "tulip"))
