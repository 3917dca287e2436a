"""The served index with its model: opened once, and up to date with what other processes change."""

import threading
from pathlib import Path

from lookalike.search.encoder import ImageEncoder
from lookalike.search.index import ImageIndex


class Store:
    """An index folder that is open for searching; `open` makes one. Several threads may use it."""

    def __init__(self, folder: Path, index: ImageIndex, encoder: ImageEncoder, device: str) -> None:
        self.folder = folder
        self.index = index
        self.encoder = encoder
        self._device = device
        self._turn = threading.Lock()
        self._count: int | None = None

    @classmethod
    def open(cls, folder: str | Path, device: str = "auto") -> "Store":
        """The index and the model in `folder`.

        Raises:
            FileError: no index there.
        """
        folder = Path(folder)
        index = ImageIndex.open(folder)
        return cls(folder, index, ImageEncoder.of_index(folder, device), device)

    def current(self) -> ImageIndex:
        """The index as it is on disk now, with the model of its vectors in `encoder`."""
        with self._turn:
            if self.index.refresh():
                self._count = None
            if self.index.facts.fingerprint != self.encoder.fingerprint:
                self.encoder = ImageEncoder.of_index(self.folder, self._device)
            return self.index

    def count(self) -> int:
        """Images in the index."""
        index = self.current()
        if self._count is None:
            self._count = len(index)
        return self._count

    def close(self) -> None:
        """Closes the index."""
        self.index.close()
