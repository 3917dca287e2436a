"""Bringing an index up to date with a set of images: streaming, resumable, and never wrong in between.

Files whose size and time did not change are not opened. The others are hashed; a content that the index knows
is not embedded again, wherever its file lies now. What is embedded is committed every few thousand images or
few seconds, so an interrupted run continues where it was. Memory does not grow with the number of images.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch import Tensor

from lookalike.data.dataset import LabeledImages, with_box
from lookalike.data.image_bytes import read_image
from lookalike.data.labels import is_unlabeled
from lookalike.errors import DataError
from lookalike.search.columns import TableColumns
from lookalike.search.encoder import BATCH, ImageEncoder
from lookalike.search.engines import Floats
from lookalike.search.files import IndexedFile, StoredFile, box_of
from lookalike.search.index import ImageIndex
from lookalike.search.report import IndexReport
from lookalike.search.roots import Placement, place
from lookalike.utils.progress import Phase, Progress
from lookalike.utils.threads import in_threads

COMMIT_IMAGES = 2048
COMMIT_SECONDS = 2.0
_LOOKED_UP = 4096
_READ_AHEAD = 4 * BATCH


@dataclass(frozen=True)
class _Read:
    """A file that was opened: its facts, and its content or what is wrong with it.

    `decoded` is False for a content that is no image, which the index must not show any more; a file that
    could not be read at all keeps its entry.
    """

    file: IndexedFile
    digest: str = ""
    tensor: Tensor | None = None
    error: str = ""
    decoded: bool = True


class Update:
    """One run over a table: `run`, then `prune` if wanted, then `finish`."""

    def __init__(
        self,
        index: ImageIndex,
        encoder: ImageEncoder,
        table: LabeledImages,
        columns: TableColumns,
        strict: bool,
        report: IndexReport,
    ) -> None:
        self.report = report
        self._index = index
        self._encoder = encoder
        self._table = table
        self._columns = columns
        self._strict = strict
        self._placement = Placement(-1)
        self._new: dict[str, tuple[IndexedFile, Floats]] = {}  # embedded, by digest
        # further files of contents that are in the index or in _new, by digest
        self._known: list[tuple[str, IndexedFile]] = []
        self._broken: list[str] = []
        self._committed = time.monotonic()

    def run(self, progress: Progress) -> None:
        """Brings every file of the table into the index."""
        index, table = self._index, self._table
        root = table.root.resolve()
        with index.catalog.transaction():
            self._placement = place(index.catalog, root, [table.file_path(row) for row in range(len(table))])
            index.catalog.set_columns(self._columns.kinds)
        if self._placement.note:
            self.report.notes.append(self._placement.note)
        with progress.phase("indexing", len(table)) as phase:
            for start in range(0, len(table), _LOOKED_UP):
                rows = range(start, min(start + _LOOKED_UP, len(table)))
                todo = self._changed(rows)
                phase.advance(len(rows) - len(todo))
                self._embed(todo, phase)
        self._commit()

    def finish(self) -> None:
        """Removes images that no file holds any more."""
        self._index.remove_unused()

    def prune(self) -> None:
        """Removes entries below the table's folder whose files are gone or not listed."""
        catalog, root = self._index.catalog, self._placement.root
        gone = [path for path, listed, file in self._entries() if not listed or not file.exists()]
        with catalog.transaction():
            catalog.delete_files(root, gone)
        self.report.removed += len(gone)
        self.report.missing = 0

    def count_missing(self) -> None:
        """Counts entries below the table's folder whose files are gone; `run` counted those that the table lists."""
        self.report.missing += sum(not listed and not file.exists() for _, listed, file in self._entries())

    def _entries(self) -> Iterator[tuple[str, bool, Path]]:
        """Paths of the index below the table's folder, whether the table lists them, and their files."""
        catalog, at = self._index.catalog, self._placement
        root = catalog.roots()[at.root]
        listed = {self._path(row) for row in range(len(self._table))}
        for path in catalog.paths(at.root):
            if path.startswith(at.prefix):
                yield path, path in listed, root / box_of(path)[0]

    def _path(self, row: int) -> str:
        """Of an image, as the catalog has it."""
        return with_box(self._placement.prefix + self._table.file_path(row), self._table.box(row))

    def _facts(self, row: int) -> IndexedFile | None:
        """A file as it is now, or None if it is not there."""
        table = self._table
        label = table.class_names[table.labels[row]]
        values = self._columns.row(row)
        try:
            facts = table.file(row).stat()
        except OSError:
            return None
        return IndexedFile(
            self._path(row), "" if label == "." else label, facts.st_size, facts.st_mtime_ns, values
        )

    def _changed(self, rows: range) -> list[IndexedFile]:
        """The files that have to be opened; labels of the others are brought up to date."""
        index, root = self._index, self._placement.root
        now = [self._facts(row) for row in rows]
        known = index.catalog.files(root, [self._path(row) for row in rows])
        todo: list[IndexedFile] = []
        relabeled: list[tuple[int, IndexedFile]] = []
        for file in now:
            if file is None:
                self.report.missing += 1
                continue
            stored = known.get(file.path)
            if stored is not None:
                file = self._with_what_is_known(file, stored.file)
            if stored is None or (stored.file.size, stored.file.modified) != (file.size, file.modified):
                todo.append(file)
            elif _says_the_same(stored, file):
                self.report.unchanged += 1
            else:
                relabeled.append((stored.item, file))
        if relabeled:
            with index.catalog.transaction():
                index.catalog.put_files(
                    root, [item for item, _ in relabeled], [file for _, file in relabeled]
                )
            self.report.relabeled += len(relabeled)
        return todo

    def _with_what_is_known(self, file: IndexedFile, stored: IndexedFile) -> IndexedFile:
        """A file with the label and columns that another source gave it, as far as this one does not say them."""
        unsaid = {name: value for name, value in stored.values.items() if name not in self._columns.kinds}
        label = stored.label if is_unlabeled(self._table) else file.label
        return replace(file, label=label, values=unsaid | dict(file.values))

    def _embed(self, files: list[IndexedFile], phase: Phase) -> None:
        for start in range(0, len(files), _READ_AHEAD):
            part = files[start : start + _READ_AHEAD]
            self._take(list(self._opened(part)))
            phase.advance(len(part))
            if len(self._new) >= COMMIT_IMAGES or time.monotonic() - self._committed > COMMIT_SECONDS:
                self._commit()

    def _opened(self, files: list[IndexedFile]) -> Iterator[_Read]:
        root = self._index.catalog.roots()[self._placement.root]

        def open_file(number: int) -> _Read:
            file = files[number]
            path, box = box_of(file.path)
            try:
                digest, image = read_image(root / path, box=box)
                return _Read(file, digest, self._encoder.prepare(image))
            except DataError as error:
                return _Read(file, error=str(error), decoded=False)
            except OSError as error:
                return _Read(file, error=f"{root / path}: cannot be read ({error.strerror})")

        return in_threads(open_file, range(len(files)))

    def _take(self, opened: list[_Read]) -> None:
        """Embeds what is new of some files."""
        bad = [one for one in opened if one.error]
        if bad and self._strict:
            self._commit()
            raise DataError(bad[0].error)
        self.report.bad |= {one.file.path: one.error for one in bad}
        self._broken += [one.file.path for one in bad if not one.decoded]
        good = [one for one in opened if not one.error]
        known = self._index.catalog.items_of_digests([one.digest for one in good])
        fresh: dict[str, _Read] = {}
        for one in good:
            if one.digest in known or one.digest in self._new or one.digest in fresh:
                self._known.append((one.digest, one.file))
            else:
                fresh[one.digest] = one
        vectors = self._encoder.encode([one.tensor for one in fresh.values() if one.tensor is not None])
        self._new |= {
            digest: (one.file, vector) for (digest, one), vector in zip(fresh.items(), vectors, strict=True)
        }

    def _commit(self) -> None:
        """Stores what was read since the last commit."""
        index, root = self._index, self._placement.root
        if self._new:
            index.add(
                [file for file, _ in self._new.values()],
                list(self._new),
                np.stack([vector for _, vector in self._new.values()]),
                fingerprint=self._encoder.fingerprint,
                root=root,
            )
        if self._known or self._broken:
            items = index.catalog.items_of_digests([digest for digest, _ in self._known])
            with index.catalog.transaction():
                known = [(items[digest], file) for digest, file in self._known]
                index.catalog.put_files(root, [item for item, _ in known], [file for _, file in known])
                stale = index.catalog.files(root, self._broken)
                index.catalog.delete_files(root, stale)
            self.report.removed += len(stale)
        self.report.added += len(self._new)
        self.report.known += len(self._known)
        self._new, self._known, self._broken = {}, [], []
        self._committed = time.monotonic()


def _says_the_same(stored: StoredFile, file: IndexedFile) -> bool:
    """Whether label and columns are as they were."""
    values = {name: value for name, value in file.values.items() if value is not None}
    return stored.file.label == file.label and dict(stored.file.values) == values
