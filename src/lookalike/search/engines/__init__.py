"""The search engines by name, and how each is opened.

To add one: a file with a class that keeps the contract of `base.Engine`, and an entry of `ENGINES`; the
contract test then covers it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lookalike.search.engines.base import Engine, EngineLocation, Floats, Ints, Neighbors
from lookalike.search.engines.exact import ExactEngine
from lookalike.search.engines.faiss import FaissEngine
from lookalike.search.engines.milvus import MilvusEngine
from lookalike.search.engines.pgvector import PgvectorEngine

__all__ = ["ENGINES", "Engine", "EngineEntry", "EngineLocation", "Floats", "Ints", "Neighbors"]


@dataclass(frozen=True)
class EngineEntry:
    """An engine's entry in the table.

    Attributes:
        open: opens the engine at a location, which is made if absent when writable.
        about: what it is for, in one line.
        package, extra: what it imports and the extra that installs it; empty for the core.
        uri: an example of the `--uri` that it needs; empty if it needs none.
    """

    open: Callable[[EngineLocation], Engine]
    about: str
    package: str = ""
    extra: str = ""
    uri: str = ""


ENGINES: Mapping[str, EngineEntry] = {
    "exact": EngineEntry(
        ExactEngine, "compares with everything, memory-mapped; up to about a million images"
    ),
    "faiss": EngineEntry(
        FaissEngine,
        "approximate on one machine: HNSW from 50,000 images, IVF-PQ from a million",
        package="faiss",
        extra="faiss",
    ),
    "pgvector": EngineEntry(
        PgvectorEngine,
        "in your own PostgreSQL, with HNSW",
        package="psycopg",
        extra="pgvector",
        uri="postgresql://user@host/database",
    ),
    "milvus": EngineEntry(
        MilvusEngine,
        "Milvus Lite in a file, or a Milvus cluster for more than one machine",
        package="pymilvus",
        extra="milvus",
        uri="./file.db or http://host:19530",
    ),
}
