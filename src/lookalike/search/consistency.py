"""Whether the vectors of an index's engine are those of the images in its catalog, and making them so."""

from pathlib import Path

import numpy as np

from lookalike.errors import FileError
from lookalike.search.catalog import Catalog
from lookalike.search.engines import REMEDY, Engine
from lookalike.search.facts import IndexFacts


def check_no_vector_lost(folder: Path, facts: IndexFacts, known: int, stored: int, *, repair: bool) -> None:
    """Refuses an index that knows more images than its engine has vectors; only damage leaves fewer.

    Args:
        known: images in the catalog, counted before the engine was opened.
        stored: vectors in the engine.
        repair: whether some may be lost, since they will be embedded again.

    Raises:
        FileError: vectors are lost; with `repair` all of them.
    """
    lost = known - stored
    if lost <= 0 or (repair and lost < known):
        return
    remedy = REMEDY if lost == known else "give the command `lookalike index` again, which embeds them again"
    raise FileError(
        f"engine '{facts.engine}'{f' at {facts.uri}' if facts.uri else ''} has lost {lost} of the {known} "
        f"vectors of the index '{folder}'; {remedy}"
    )


def reconcile(catalog: Catalog, engine: Engine, *, repair: bool) -> None:
    """Removes vectors that no item knows (a writer was killed), and with `repair` items whose vectors are gone."""
    with catalog.transaction():
        catalog.delete_items_without_files()
    known, stored = catalog.ids(), engine.ids()
    orphans = np.setdiff1d(stored, known, assume_unique=True)
    if len(orphans):
        engine.delete(orphans)
    lost = np.setdiff1d(known, stored, assume_unique=True)
    if repair and len(lost):
        with catalog.transaction():
            catalog.delete_items(lost.tolist())
