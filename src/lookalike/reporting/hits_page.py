"""Page of search results: each query with its hits."""

from collections.abc import Sequence
from pathlib import Path

from lookalike.data.image_io import thumbnail_base64
from lookalike.reporting.page import write_page
from lookalike.search.image_search import QueryHits

SIDE = 112


def write_hits(file: Path, found: Sequence[QueryHits]) -> Path:
    """Writes a page with each query and its hits."""
    queries = [
        {
            "image": thumbnail_base64(hits.query, SIDE),
            "name": Path(hits.query).name,
            "hits": [
                {
                    "image": thumbnail_base64(hit.file, SIDE),
                    "name": hit.label or hit.path,
                    "note": f"{hit.similarity:.3f}",
                    "kind": "hit",
                }
                for hit in hits.hits
            ],
        }
        for hits in found
    ]
    return write_page(file, "hits.html", title="Most similar images", queries=queries)
