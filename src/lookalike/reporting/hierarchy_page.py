"""Page of the hierarchy of classes that a hierarchical loss has found."""

from lookalike.losses.class_tree import Tree
from lookalike.reporting.page import render


def tree_page(tree: Tree, title: str = "Classes grouped by the loss") -> str:
    """A self-contained HTML page of the tree: groups fold, classes are listed in them."""
    return render("hierarchy_page.html", title=title, tree=tree)
