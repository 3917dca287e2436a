"""Pictures in, pictures out: building an index with a run's model, and asking it with picture files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Hit:
    """A picture of the index and its cosine similarity to the query."""

    path: str
    file: Path
    label: str
    similarity: float


@dataclass(frozen=True)
class QueryHits:
    """A query picture and what was found for it, most similar first."""

    query: str
    hits: tuple[Hit, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        hits = [{"path": hit.path, "label": hit.label, "similarity": hit.similarity} for hit in self.hits]
        return {"query": self.query, "hits": hits}
