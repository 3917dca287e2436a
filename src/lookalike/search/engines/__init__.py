"""The search engines by name, and how each is opened.

To add one: a file with a class that keeps the contract of `base.Engine`, and an entry of `ENGINES`; the
contract test then covers it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lookalike.errors import ArgumentError
from lookalike.search.engines.base import (
    REMEDY,
    Engine,
    EngineLocation,
    Floats,
    Ints,
    Neighbors,
    NoVectorError,
)
from lookalike.search.engines.exact import ExactEngine
from lookalike.search.engines.faiss import FaissEngine
from lookalike.search.engines.milvus import MilvusEngine
from lookalike.search.engines.pgvector import PgvectorEngine
from lookalike.utils.validation import look_up, optional_import

__all__ = [
    "ENGINES",
    "REMEDY",
    "Engine",
    "EngineEntry",
    "EngineLocation",
    "Floats",
    "Ints",
    "Neighbors",
    "NoVectorError",
    "chosen_engine",
]


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


def chosen_engine(name: str, uri: str | None) -> EngineEntry:
    """The entry of an engine for a new index.

    Raises:
        UnknownNameError: no such engine.
        ArgumentError: it needs a URI and got none, or the other way around.
        MissingExtraError: its package is not installed.
    """
    entry = look_up(ENGINES, name, "search engine")
    if entry.uri and uri is None:
        raise ArgumentError(f"search engine '{name}' needs --uri, such as {entry.uri}")
    if uri is not None and not entry.uri:
        raise ArgumentError(f"search engine '{name}' keeps its vectors in the index folder: no --uri")
    if entry.package:
        optional_import(entry.package, entry.extra)
    return entry
