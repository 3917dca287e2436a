"""The hierarchy of classes that a hierarchical loss has found, as nested dicts."""

from collections.abc import Sequence
from typing import Any

Tree = dict[str, Any]
"""A leaf is {"name": class name}; a group is {"name": ..., "children": [...]}. Ready for JSON."""


def build_tree(groups: Sequence[Sequence[int]], class_names: Sequence[str]) -> Tree:
    """Classes nested in their groups.

    Args:
        groups: for each coarse level, finest first, the group of each class.
        class_names: one name per class.
    """
    members: list[tuple[int, Tree]] = list(enumerate({"name": name} for name in class_names))
    for of_class in groups:
        children: dict[int, list[Tree]] = {}
        for first_class, node in members:
            children.setdefault(of_class[first_class], []).append(node)
        any_class = {of_class[first_class]: first_class for first_class, _ in members}
        members = [
            (any_class[group], {"name": f"group {group}", "children": children[group]})
            for group in sorted(children)
        ]
    return {"name": "all classes", "children": [node for _, node in members]}


def leaves(tree: Tree) -> int:
    """The number of classes in the tree."""
    return sum(map(leaves, tree["children"])) if "children" in tree else 1
