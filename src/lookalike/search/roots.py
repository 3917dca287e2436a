"""Which root folder of an index new images belong to, when libraries are moved, nested or joined.

An index may hold several libraries. A folder inside a known root belongs to it; a folder around known roots
takes them over; an unknown folder that holds the files of a root which is gone is that root, moved. In
no case does an image change its id, since ids belong to contents.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lookalike.search.catalog import Catalog
from lookalike.search.files import box_of

_SAMPLE = 200
_ENOUGH = 0.5


@dataclass(frozen=True)
class Placement:
    """Where a source's images are in the catalog.

    Attributes:
        root: number of the root folder.
        prefix: what stands before a source's path to make it a path below the root; ends in "/" or is empty.
        note: what was recognized, for people; empty if nothing unusual.
    """

    root: int
    prefix: str = ""
    note: str = ""


def place(catalog: Catalog, folder: Path, paths: Sequence[str]) -> Placement:
    """The root for images at `paths` below `folder`; changes the catalog's roots where needed.

    Call it inside a transaction.
    """
    roots = catalog.roots()
    for number, root in roots.items():
        if folder.is_relative_to(root):
            inner = folder.relative_to(root).as_posix()
            return Placement(number, "" if inner == "." else f"{inner}/")
    inside = {number: root for number, root in roots.items() if root.is_relative_to(folder)}
    if inside:
        return _taken_over(catalog, folder, inside)
    for number, root in roots.items():
        if not root.exists() and _holds_files_of(catalog, number, folder, frozenset(paths)):
            catalog.move_root(number, folder)
            return Placement(number, note=f"library '{root}' is now at '{folder}'")
    return Placement(catalog.add_root(folder))


def _taken_over(catalog: Catalog, folder: Path, inside: dict[int, Path]) -> Placement:
    """The roots below `folder` become one root at `folder`."""
    (first, first_path), *others = inside.items()
    catalog.move_root(first, folder, f"{first_path.relative_to(folder).as_posix()}/")
    for number, path in others:
        catalog.join_roots(number, first, f"{path.relative_to(folder).as_posix()}/")
    return Placement(
        first, note=f"'{folder}' now also covers {', '.join(repr(str(p)) for p in inside.values())}"
    )


def _holds_files_of(catalog: Catalog, root: int, folder: Path, paths: frozenset[str]) -> bool:
    """Whether most of a root's files are in `folder`, by path and size."""
    files = catalog.sample_files(root, _SAMPLE)
    there = 0
    for stored in files:
        if box_of(stored.file.path)[0] in paths:
            try:
                there += (folder / box_of(stored.file.path)[0]).stat().st_size == stored.file.size
            except OSError:
                continue
    return bool(files) and there >= _ENOUGH * len(files)
