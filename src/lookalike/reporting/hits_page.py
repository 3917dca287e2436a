"""Page of search results: each query with its hits."""

from collections.abc import Sequence
from pathlib import Path

from lookalike.reporting.page import write_page
from lookalike.reporting.thumbnails import draw_thumbnail
from lookalike.search.image_search import QueryHits

SIDE = 112


def write_hits(file: Path, found: Sequence[QueryHits]) -> Path:
    """Writes a page with each query and its hits; queries that could not be read are left out."""
    queries = [
        {
            "image": draw_thumbnail(hits.query, SIDE),
            "name": Path(hits.query).name + (" (unknown)" if hits.unknown else ""),
            "hits": [
                {
                    "image": draw_thumbnail(hit.file, SIDE),
                    "name": (hit.label or hit.path) + (" (file is gone)" if hit.missing else ""),
                    "note": f"{hit.similarity:.3f}",
                    "kind": "wrong" if hit.same_class is False else "hit",
                }
                for hit in hits.hits
            ],
        }
        for hits in found
        if not hits.error
    ]
    marked = any(hits.threshold is not None for hits in found)
    return write_page(file, "hits.html", title="Most similar images", queries=queries, marked=marked)
