"""The hierarchy that a hierarchical loss has found, as nested dicts, as text and as a page to look at."""

import html
from collections.abc import Sequence
from typing import Any

Tree = dict[str, Any]
"""A leaf is {"name": class name}; a group is {"name": ..., "children": [...]}. Ready for JSON."""


def build_tree(
    groups: Sequence[Sequence[int]],
    class_names: Sequence[str],
    group_names: Sequence[Sequence[str]] | None = None,
) -> Tree:
    """Classes nested in their groups.

    Args:
        groups: for each coarse level, finest first, the group of each class.
        class_names: one name a class.
        group_names: for each coarse level one name a group; "group 0" and so on when None.
    """
    members: list[tuple[int, Tree]] = list(enumerate({"name": name} for name in class_names))
    for depth, of_class in enumerate(groups):
        children: dict[int, list[Tree]] = {}
        for first_class, node in members:
            children.setdefault(of_class[first_class], []).append(node)
        any_class = {of_class[first_class]: first_class for first_class, _ in members}
        members = [
            (
                any_class[group],
                {
                    "name": group_names[depth][group] if group_names else f"group {group}",
                    "children": children[group],
                },
            )
            for group in sorted(children)
        ]
    return {"name": "all classes", "children": [node for _, node in members]}


def leaves(tree: Tree) -> int:
    """How many classes are in the tree."""
    return sum(map(leaves, tree["children"])) if "children" in tree else 1


def tree_text(tree: Tree, indent: int = 0) -> str:
    """One line a group or class, indented by depth."""
    count = f" ({leaves(tree)})" if "children" in tree else ""
    lines = [f"{'  ' * indent}{tree['name']}{count}"]
    return "\n".join(lines + [tree_text(child, indent + 1) for child in tree.get("children", [])])


STYLE = """body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 1rem;
color-scheme:light dark}details{border-left:3px solid #8884;margin:.4rem 0;padding-left:.8rem}
summary{cursor:pointer;font-weight:600}ul{display:flex;flex-wrap:wrap;gap:.3rem
.5rem;padding:0;list-style:none} li{border:1px solid #8886;border-radius:.5rem;padding:0
.5rem}small{font-weight:400;opacity:.7}"""


def tree_page(tree: Tree, title: str = "Which classes were grouped") -> str:
    """A self-contained HTML page of the tree: groups fold, classes are listed in them."""
    title = html.escape(title)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body><h1>{title}</h1>{_group(tree)}</body></html>"
    )


def _group(tree: Tree) -> str:
    groups = "".join(_group(child) for child in tree["children"] if "children" in child)
    classes = "".join(
        f"<li>{html.escape(child['name'])}</li>" for child in tree["children"] if "children" not in child
    )
    classes = f"<ul>{classes}</ul>" if classes else ""
    summary = f"<summary>{html.escape(tree['name'])} <small>{leaves(tree)} classes</small></summary>"
    return f"<details open>{summary}{groups}{classes}</details>"
