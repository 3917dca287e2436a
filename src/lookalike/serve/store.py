"""The served index with its model, up to date with what other processes change, and the same for a whole request."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from lookalike.errors import FileError
from lookalike.search.encoder import ImageEncoder
from lookalike.search.index import ImageIndex


@dataclass(eq=False)
class Served:
    """An index and the model of its vectors; open as long as somebody uses it."""

    index: ImageIndex
    encoder: ImageEncoder
    users: int = 1


class Store:
    """An index folder that is open for searching; `open` makes one. Several threads may use it."""

    def __init__(self, folder: Path, device: str, served: Served) -> None:
        self._folder = folder
        self._device = device
        self._served = served
        self._opening = threading.Lock()
        self._counting = threading.Lock()

    @classmethod
    def open(cls, folder: str | Path, device: str = "auto") -> "Store":
        """The index and the model in `folder`.

        Raises:
            FileError: no index there.
        """
        return cls(Path(folder), device, _open(Path(folder), device, None))

    @contextlib.contextmanager
    def using(self) -> Iterator[Served]:
        """The index as it is on disk now; it stays that one, whatever changes meanwhile.

        Raises:
            FileError: there is no index any more.
        """
        with self._opening:
            before = self._served
            if before.index.is_changed():
                self._served = _open(self._folder, self._device, before.encoder)
                self._leave(before)
            served = self._served
            with self._counting:
                served.users += 1
        try:
            yield served
        finally:
            self._leave(served)

    def close(self) -> None:
        """Closes the index."""
        self._leave(self._served)

    def _leave(self, served: Served) -> None:
        with self._counting:
            served.users -= 1
            unused = not served.users
        if unused:
            served.index.close()


def _open(folder: Path, device: str, encoder: ImageEncoder | None) -> Served:
    """An index with its model, which is `encoder` if it made the vectors."""
    index = ImageIndex.open(folder)
    try:
        if encoder is None or encoder.fingerprint != index.facts.fingerprint:
            encoder = ImageEncoder.of_index(folder, device)
            side = encoder.transform.preprocessing.size
            encoder.encode([torch.zeros(3, side, side, dtype=torch.uint8)])  # the first run takes longer
        if encoder.fingerprint != index.facts.fingerprint:
            raise FileError(f"'{folder}' holds the model of another index; it is being replaced, or damaged")
    except BaseException:
        index.close()
        raise
    return Served(index, encoder)
