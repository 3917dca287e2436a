"""Unit vectors and their ids in two raw files that only grow; the base of the engines on local files.

`vectors-G.f32` holds rows of D float32, `ids-G.i64` one int64 per row, -1 where a row was deleted; both
little-endian and without a header, so `numpy.memmap` opens them. Vectors are written before their ids: the
ids decide how many rows there are, and a writer that was killed leaves at most vectors without ids, which
the next writer cuts off. When a quarter of the rows is deleted, the rest is copied to generation G + 1 and
the file `generation` switches to it; readers keep the files that they opened.
"""

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lookalike.errors import FileError
from lookalike.search.engines.base import REMEDY, Floats, Ints, NoVectorError
from lookalike.utils.io import write_text

DELETED = -1
COMPACT_FROM = 0.25
_TRIES = 20
_COPIED_ROWS = 65_536


class VectorFile:
    """Vectors of `dim` numbers in `folder`, made if absent when `writable`.

    Attributes:
        row_ids: the id of each row; -1 for deleted ones.
        live: rows that are not deleted.
    """

    def __init__(self, folder: Path, dim: int, *, writable: bool) -> None:
        self.folder = folder
        self.dim = dim
        self.generation = 0
        self.row_ids: Ints = np.empty(0, np.int64)
        self.live = 0
        self._matrix: Tensor | None = None
        if writable:
            folder.mkdir(parents=True, exist_ok=True)
            self._cut_unfinished()
        self._open()

    def __len__(self) -> int:
        """Rows, deleted ones included."""
        return len(self.row_ids)

    def matrix(self) -> Tensor:
        """All rows, (rows, dim), memory-mapped; prepared once per change."""
        if self._matrix is None:
            rows = len(self.row_ids)
            if rows:
                mapped = np.memmap(self._file("vectors"), "<f4", mode="c", shape=(rows, self.dim))
                self._matrix = torch.from_numpy(mapped)
            else:
                self._matrix = torch.empty((0, self.dim))
        return self._matrix

    def rows_of(self, ids_N: Ints) -> Ints:
        """The row of each id, -1 for ids that are not stored."""
        order = np.argsort(self.row_ids, kind="stable")
        ordered = self.row_ids[order]
        at = np.searchsorted(ordered, ids_N)
        at[at == len(ordered)] = 0
        if not len(ordered):
            return np.full(len(ids_N), -1, np.int64)
        return np.where((ordered[at] == ids_N) & (ids_N != DELETED), order[at], -1).astype(np.int64)

    def vectors(self, ids_N: Ints) -> Floats:
        """The vectors of these ids, in that order.

        Raises:
            NoVectorError: an id that is not stored.
        """
        rows = self.rows_of(ids_N)
        if (rows < 0).any():
            raise NoVectorError(int(ids_N[(rows < 0).argmax()]), f"'{self.folder}'")
        taken: Floats = self.matrix()[torch.from_numpy(rows)].numpy()
        return taken

    def check_numbers(self, similarities: Floats) -> None:
        """Refuses products with a vector that is not a number: it would come first, or push others out.

        Raises:
            FileError: the file is damaged.
        """
        if np.isnan(similarities).any():
            raise FileError(f"'{self._file('vectors')}' is damaged; {REMEDY}")

    def add(self, ids_N: Ints, vectors_ND: Floats) -> None:
        """Appends rows; they are on disk when this returns."""
        _append(self._file("vectors"), np.ascontiguousarray(vectors_ND, "<f4").tobytes())
        _append(self._file("ids"), np.ascontiguousarray(ids_N, "<i8").tobytes())
        self.row_ids = np.concatenate([self.row_ids, ids_N.astype(np.int64)])
        self.live += len(ids_N)
        self._matrix = None

    def delete(self, ids_N: Ints) -> None:
        """Marks rows as deleted, and copies the rest to new files when many are."""
        rows = np.flatnonzero(np.isin(self.row_ids, ids_N) & (self.row_ids != DELETED))
        if not len(rows):
            return
        with self._file("ids").open("r+b") as stream:
            for row in rows.tolist():
                stream.seek(8 * row)
                stream.write(DELETED.to_bytes(8, "little", signed=True))
            os.fsync(stream.fileno())
        self.row_ids[rows] = DELETED
        self.live -= len(rows)
        if self.live < (1 - COMPACT_FROM) * len(self):
            self._compact()

    def _compact(self) -> None:
        keep = np.flatnonzero(self.row_ids != DELETED)
        old, matrix = self.generation, self.matrix()
        new = old + 1
        with self._file("vectors", new).open("wb") as stream:
            for start in range(0, len(keep), _COPIED_ROWS):
                stream.write(
                    matrix[torch.from_numpy(keep[start : start + _COPIED_ROWS])]
                    .numpy()
                    .astype("<f4")
                    .tobytes()
                )
            os.fsync(stream.fileno())
        with self._file("ids", new).open("wb") as stream:
            stream.write(self.row_ids[keep].astype("<i8").tobytes())
            os.fsync(stream.fileno())
        write_text(self.folder / "generation", f"{new}\n")
        for kind in ("vectors", "ids"):
            self._file(kind, old).unlink(missing_ok=True)
        self._open()

    def _open(self) -> None:
        for _ in range(_TRIES):
            self.generation = self._current()
            try:
                ids = np.fromfile(self._file("ids"), "<i8").astype(np.int64)
                held = self._file("vectors").stat().st_size // (4 * self.dim)
            except FileNotFoundError:
                if self.generation == 0 and self._current() == 0:
                    ids, held = np.empty(0, np.int64), 0
                else:
                    continue  # a writer has just switched to the next generation
            self._check_held(held, len(ids))
            self.row_ids, self._matrix = ids, None
            self.live = int((ids != DELETED).sum())
            try:
                self.matrix()
            except FileNotFoundError:
                continue
            return
        raise FileError(f"the vectors in '{self.folder}' cannot be opened; {REMEDY}")

    def _check_held(self, vectors: int, ids: int) -> None:
        """Vectors are written before their ids, so fewer of them were not left by a writer that was killed."""
        if vectors < ids:
            raise FileError(f"'{self._file('vectors')}' holds {vectors} vectors for {ids} ids; {REMEDY}")

    def _current(self) -> int:
        file = self.folder / "generation"
        try:
            return int(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return 0
        except ValueError as error:
            raise FileError(f"'{file}' is damaged; {REMEDY}") from error

    def _cut_unfinished(self) -> None:
        self.generation = self._current()
        ids, vectors = self._file("ids"), self._file("vectors")
        if self.generation and not (ids.exists() and vectors.exists()):
            raise FileError(f"'{ids}' or '{vectors.name}' is missing; {REMEDY}")
        for kind in ("vectors", "ids"):
            for file in self.folder.glob(f"{kind}-*"):
                if file != self._file(kind):
                    file.unlink()
        ids.touch()
        vectors.touch()
        rows = ids.stat().st_size // 8
        self._check_held(vectors.stat().st_size // (4 * self.dim), rows)
        for file, size in ((ids, 8 * rows), (vectors, 4 * self.dim * rows)):
            if file.stat().st_size != size:
                os.truncate(file, size)

    def _file(self, kind: str, generation: int | None = None) -> Path:
        suffix = {"vectors": "f32", "ids": "i64"}[kind]
        return self.folder / f"{kind}-{self.generation if generation is None else generation}.{suffix}"


def _append(file: Path, content: bytes) -> None:
    with file.open("ab") as stream:
        stream.write(content)
        os.fsync(stream.fileno())
