"""The hierarchy that a hierarchical loss has found, as a page to look at."""

import html

from lookalike.losses.class_tree import Tree, leaves

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
