"""What the engines on local files share: their vectors lie in a `VectorFile`."""

from abc import ABC, abstractmethod

import numpy as np

from lookalike.search.engines.base import EngineLocation, Floats, Ints, Neighbors
from lookalike.search.engines.vector_file import DELETED, VectorFile


class FileEngine(ABC):
    """An engine over a vector file; a subclass says how it is searched."""

    def __init__(self, location: EngineLocation) -> None:
        self._file = VectorFile(location.folder, location.dim, writable=location.writable)

    def add(self, ids_N: Ints, vectors_ND: Floats) -> None:
        """See `Engine`."""
        self._file.add(ids_N, vectors_ND)

    def delete(self, ids_N: Ints) -> None:
        """See `Engine`."""
        self._file.delete(ids_N)

    @abstractmethod
    def search(self, queries_QD: Floats, k: int, *, allowed: Ints | None = None) -> Neighbors:
        """See `Engine`."""

    def vectors(self, ids_N: Ints) -> Floats:
        """See `Engine`."""
        return self._file.vectors(ids_N)

    def ids(self) -> Ints:
        """See `Engine`."""
        return np.sort(self._file.row_ids[self._file.row_ids != DELETED])

    def count(self) -> int:
        """See `Engine`."""
        return self._file.live

    @abstractmethod
    def save(self) -> None:
        """See `Engine`."""

    @abstractmethod
    def close(self) -> None:
        """See `Engine`."""
