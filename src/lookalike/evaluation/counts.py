"""Counts behind a result, and the notes that mention those a reader has to know."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lookalike.ranking import Comparison, QuerySet


def count_everything(
    query_set: QuerySet,
    comparison: Comparison,
    *,
    ks: Sequence[int],
    tied: np.ndarray,
    ignored: dict[str, int],
    separate: bool,
    class_names: Sequence[str] | None,
    no_match: str,
) -> dict[str, Any]:
    """Queries, gallery rows, classes, and what was left out, tied, copied or clipped.

    Args:
        tied: (Q,) whether a tie touches the query.
        ignored: rows left out for their label.
        separate: the gallery was given apart from the queries.
    """
    unmatched = query_set.count_positives() == 0
    classes = np.unique(query_set.labels[unmatched]).tolist()
    most = max(1, len(query_set.gallery_labels) - int((query_set.own >= 0).all()))
    return {
        "queries": len(query_set),
        "gallery": len(query_set.gallery_labels),
        "separate_gallery": separate,
        "classes": len(np.unique(query_set.labels)),
        "scored": len(query_set) if no_match == "miss" else int((~unmatched).sum()),
        "no_match": int(unmatched.sum()),
        "no_match_classes": classes if class_names is None else [class_names[c] for c in classes],
        "ignored": ignored,
        "tied_queries": int(tied.sum()),
        "duplicates": comparison.gallery.count_copies(),
        "queries_in_gallery": comparison.queries.count_shared(comparison.gallery) if separate else 0,
        "clipped_k": {str(k): most for k in ks if k > most},
    }


def notes_of(counts: dict[str, Any], no_match: str) -> list[str]:
    """One sentence for each count that changes how the values are read."""
    notes = []
    if counts["no_match"]:
        done = "left out" if no_match == "exclude" else "counted as misses"
        notes.append(
            f"{counts['no_match']:,} of {counts['queries']:,} queries have no match in the gallery "
            f"({len(counts['no_match_classes']):,} classes): {done}"
        )
    if counts["scored"] == 0:
        notes.append(
            "no query has a match: retrieval metrics have no value; give at least two rows of a class"
        )
    if any(counts["ignored"].values()):
        notes.append(
            f"rows with an ignored label were left out: {counts['ignored']['queries']:,} queries, "
            f"{counts['ignored']['gallery']:,} gallery rows"
        )
    if counts["queries_in_gallery"]:
        notes.append(
            f"{counts['queries_in_gallery']:,} of {counts['queries']:,} queries have an exact copy in the "
            "separate gallery, which they retrieve first; to compare rows with all others, give no gallery"
        )
    if counts["tied_queries"]:
        notes.append(
            f"{counts['tied_queries']:,} queries have a positive and a negative exactly as similar; "
            "the row that comes first in the gallery ranks first"
        )
    if counts["duplicates"]:
        notes.append(f"{counts['duplicates']:,} gallery rows are exact copies of an earlier row")
    notes += [
        f"K = {k} is more than a query can retrieve; clipped to {most}"
        for k, most in counts["clipped_k"].items()
    ]
    return notes
