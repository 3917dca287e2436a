"""What a search engine is: it owns vectors under ids, on disk or in a server, and finds the most similar ones.

One contract for all, held by one test over `ENGINES`:

- ids are int64, given by the caller and never given twice; vectors have unit length;
- what `add` and `delete` did is durable when they return; deleting an id that is not there changes nothing;
- a query gets exactly min(k, M) ids, M being the stored ids (or those also in `allowed`), each once, most
  similar first, with cosine similarities in [-1, 1];
- another engine object opened later, in any process, sees the same vectors.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import ArgumentError

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
REMEDY = "put back a copy of the index, or remove its folder and build it again"


class NoVectorError(ArgumentError):
    """An id whose vector is not stored: never, or no longer since another process has removed it."""

    def __init__(self, number: int, where: str) -> None:
        super().__init__(f"id {number} has no vector in {where}")


@dataclass(frozen=True)
class EngineLocation:
    """Where an engine keeps its vectors.

    Attributes:
        folder: of its own, for engines on files.
        dim: width of the vectors.
        name: of the table or collection, for engines in a server; letters, digits and underscores.
        uri: of the server or file, for engines that need one.
        writable: False promises that only `search`, `vectors`, `ids` and `count` are called.
    """

    folder: Path
    dim: int
    name: str = "lookalike"
    uri: str | None = None
    writable: bool = True


@dataclass(frozen=True)
class Neighbors:
    """Row i belongs to query i, most similar first.

    Attributes:
        ids: (Q, k') int64.
        similarities: (Q, k') float32, cosines in [-1, 1].
    """

    ids: Ints
    similarities: Floats

    @classmethod
    def none(cls, queries: int) -> "Neighbors":
        """Nothing found, for so many queries."""
        return cls(np.empty((queries, 0), np.int64), np.empty((queries, 0), np.float32))


class Engine(Protocol):
    """Vectors under ids; see the contract above."""

    def add(self, ids_N: Ints, vectors_ND: Floats) -> None:
        """Stores unit vectors under ids that were never used."""

    def delete(self, ids_N: Ints) -> None:
        """Removes these ids, as far as they are there."""

    def search(self, queries_QD: Floats, k: int, *, allowed: Ints | None = None) -> Neighbors:
        """The `k` stored vectors most similar to each query; with `allowed`, among these ids only."""

    def vectors(self, ids_N: Ints) -> Floats:
        """The vectors of these ids, (N, D), in that order.

        Raises:
            NoVectorError: an id that is not stored.
        """

    def ids(self) -> Ints:
        """Every stored id, ascending."""

    def count(self) -> int:
        """How many vectors are stored."""

    def save(self) -> None:
        """Builds and stores whatever makes searching faster; called once after many changes."""

    def close(self) -> None:
        """Gives files and connections back; the engine is not used afterwards."""
