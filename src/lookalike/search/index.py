"""An index of images: unit vectors in an engine, everything else in a catalog, searched by cosine similarity.

    INDEX/
        index.json       model, engine, threshold, measured recall (search.facts)
        catalog.sqlite   items, their files, labels and columns (search.catalog)
        vectors/         the engine's own, for engines on files
        model/           a copy of the model that made the vectors
        writer.lock      held by the one process that changes the index

The order of writing makes every moment a safe one to be killed at: ids are reserved for good, then vectors
are stored under them, then the catalog learns of them; what is removed leaves the catalog first. Vectors that
no item knows are never shown, and the next writer removes them.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from lookalike.errors import ArgumentError
from lookalike.search.engines import Floats, NoVectorError
from lookalike.search.facts import read_facts, write_facts
from lookalike.search.files import IndexedFile, StoredFile
from lookalike.search.matches import Match, find_matches
from lookalike.search.opening import IndexParts, create_parts, open_parts
from lookalike.search.units import to_units
from lookalike.utils.validation import check_at_least, check_between


class ImageIndex:
    """An open index; `create` and `open` make one, and it is a context manager.

    Several threads may search it at a time. One that is open for writing holds the index's lock.
    """

    def __init__(self, folder: Path, parts: IndexParts) -> None:
        self.folder = folder
        self._turn = threading.RLock()
        self._hold(parts)

    @classmethod
    def create(
        cls, folder: str | Path, *, fingerprint: str, dim: int, engine: str = "exact", uri: str | None = None
    ) -> Self:
        """A new, empty index in `folder` (made if absent), open for writing.

        Args:
            fingerprint: of the model whose vectors it will hold.
            dim: width of the vectors.
            engine: of `ENGINES`.
            uri: of the engine's server or file, for engines that need one.

        Raises:
            FileError: an index or other files are there already, or another process is making one.
            ArgumentError: an engine that needs a URI and has none, or the other way around.
        """
        folder = Path(folder)
        return cls(folder, create_parts(folder, fingerprint=fingerprint, dim=dim, engine=engine, uri=uri))

    @classmethod
    def open(cls, folder: str | Path, *, writable: bool = False, repair: bool = False) -> Self:
        """The index in `folder`.

        Args:
            writable: holds the index's lock, and removes vectors that a killed writer left.
            repair: removes images whose vectors are lost, so that they can be added again; needs `writable`.

        Raises:
            FileError: no index there, a damaged one, or (writable) another process is changing it.
        """
        folder = Path(folder)
        return cls(folder, open_parts(folder, writable=writable, repair=repair))

    def close(self) -> None:
        """Closes the index, and releases its lock."""
        with self._turn:
            self._parts.close()

    def _hold(self, parts: IndexParts) -> None:
        self._parts = parts
        self.facts, self.catalog, self.engine = parts.facts, parts.catalog, parts.engine

    def __reduce__(self) -> tuple[Callable[[str], Self], tuple[str]]:
        return type(self).open, (str(self.folder.absolute()),)  # another process opens it for reading

    def __repr__(self) -> str:
        return f"<ImageIndex '{self.folder}': {self.facts.dim} dimensions, engine '{self.facts.engine}'>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        """Images; identical files are one image."""
        with self._turn:
            return self.catalog.count()

    def refresh(self) -> bool:
        """Takes over what another process changed, also another index in its folder; returns whether anything did.

        Raises:
            FileError: there is no index any more; this one stays as it was.
        """
        with self._turn:
            if not self.is_changed():
                return False
            before = self._parts
            self._hold(open_parts(self.folder))
            before.close()
            return True

    def is_changed(self) -> bool:
        """Whether another process has changed it since it was opened, or put another index in its folder.

        Raises:
            FileError: there is no index any more.
        """
        with self._turn:
            return self._parts.lock is None and (
                self.catalog.is_replaced()
                or self.catalog.version() != self._parts.version
                or read_facts(self.folder) != self.facts
            )

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Everything read from the catalog inside is of one moment, and no other thread reads or writes meanwhile."""
        with self._turn, self.catalog.snapshot():
            yield

    def _check_writable(self) -> None:
        if self._parts.lock is None:
            raise ArgumentError(
                f"index '{self.folder}' was opened for reading; to change it: ImageIndex.open(FOLDER, writable=True)"
            )

    def add(
        self,
        files: Sequence[IndexedFile],
        digests: Sequence[str],
        embeddings: Floats,
        *,
        fingerprint: str,
        root: int,
    ) -> None:
        """Adds files with new contents, in one step.

        Args:
            files: their facts; a path that is there already is replaced.
            digests: of their contents, none of which the index knows.
            embeddings: (N, dim), of any length.
            fingerprint: of the model that embedded them.
            root: number of their root folder in the catalog.

        Raises:
            ArgumentError: an index opened for reading, another model's vectors, or what is no (N, dim) of vectors.
        """
        self._check_writable()
        units = to_units(embeddings, self.facts, fingerprint, [file.path for file in files])
        if not len(files) == len(digests) == len(units):
            raise ArgumentError(f"{len(files)} files, {len(digests)} digests and {len(units)} embeddings")
        if not files:
            return
        with self._turn:
            ids = self.catalog.reserve(len(files))
            self.engine.add(ids, units)
            with self.catalog.transaction():
                self.catalog.add_items(ids.tolist(), digests)
                self.catalog.put_files(root, ids.tolist(), files)

    def remove_unused(self) -> int:
        """Removes the images that no file holds any more, and returns how many."""
        self._check_writable()
        with self._turn:
            with self.catalog.transaction():
                gone = self.catalog.delete_items_without_files()
            if len(gone):
                self.engine.delete(gone)
            return len(gone)

    def delete(self, ids: Sequence[int]) -> None:
        """Removes these images with all their files; ids that are not in the index do nothing.

        Raises:
            ArgumentError: an index opened for reading.
        """
        self._check_writable()
        with self._turn:
            with self.catalog.transaction():
                self.catalog.delete_items(ids)
            self.engine.delete(np.asarray(ids, dtype=np.int64))

    def vectors(self, ids: Sequence[int]) -> Floats:
        """The unit vectors of these images, (N, dim).

        Raises:
            ArgumentError: an id that is not in the index.
        """
        with self._turn:
            return self.engine.vectors(np.asarray(ids, dtype=np.int64))

    def files(self, ids: Sequence[int]) -> dict[int, list[StoredFile]]:
        """The files of each of these images, as far as they are in the index."""
        with self.reading():
            return self.catalog.files_of(np.asarray(ids, dtype=np.int64).tolist())

    def search(
        self,
        queries: Floats,
        k: int = 10,
        *,
        fingerprint: str,
        where: str | None = None,
        min_similarity: float = -1.0,
        collapse: float | None = None,
        leave_out: Sequence[int | None] | None = None,
    ) -> tuple[tuple[Match, ...], ...]:
        """The `k` most similar images of each query; fewer only if fewer match.

        Args:
            queries: (Q, dim) embeddings, of any length.
            k: how many.
            fingerprint: of the model that embedded the queries.
            where: a filter on label, path and the table's columns, such as "year >= 2020 and label in (a, b)".
            min_similarity: less similar images are left out.
            collapse: of images at least this similar to each other only the first is shown.
            leave_out: (Q,) an image that each query does not find, such as itself; None for no image.

        Raises:
            ArgumentError: another model's vectors, what is no (Q, dim) of vectors, or a filter that cannot be parsed.
        """
        check_at_least("k", k, 1)
        check_between("min_similarity", min_similarity, -1, 1)
        if collapse is not None:
            check_between("collapse", collapse, -1, 1)
        units = to_units(queries, self.facts, fingerprint)
        if leave_out is not None and len(leave_out) != len(units):
            raise ArgumentError(f"{len(leave_out)} images to leave out, and {len(units)} queries")

        def find() -> tuple[tuple[Match, ...], ...]:
            with self.reading():
                return find_matches(
                    self.catalog,
                    self.engine,
                    units,
                    k,
                    where=where,
                    min_similarity=min_similarity,
                    collapse=collapse,
                    leave_out=leave_out,
                )

        try:
            return find()
        except (
            NoVectorError
        ):  # another process has removed the image: first from the catalog, then its vector
            return find()

    def set_facts(self, **changes: object) -> None:
        """Stores a threshold or a check in `index.json`."""
        self._check_writable()
        self.facts = replace(self.facts, **changes)  # type: ignore[arg-type]
        write_facts(self.folder, self.facts)
