"""An index of images: one unit vector each, known by its path, searched by cosine similarity.

An index remembers the fingerprint of the model that made its vectors and refuses any other's: vectors of two
models can be compared without an error, and mean nothing. An image is known by its path; putting it in
again replaces it. How it lies on disk: `storage`.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from lookalike.errors import ArgumentError
from lookalike.search.engines import ENGINES, Engine, Floats, Ints, overlap
from lookalike.search.storage import read_index, write_index
from lookalike.utils.validation import check_at_least, look_up


@dataclass(frozen=True)
class IndexedImage:
    """What the index knows of an image besides its vector.

    `path` is its id. `size` (bytes), `modified` (nanoseconds) and `digest` (SHA-256 of the file) tell
    whether the file has changed since; -1 and "" where there is no file.
    """

    path: str
    label: str = ""
    size: int = -1
    modified: int = -1
    digest: str = ""

    @classmethod
    def of_file(cls, file: Path, path: str, label: str = "") -> "IndexedImage":
        """The facts of a file as it is now."""
        facts = file.stat()
        return cls(path, label, facts.st_size, facts.st_mtime_ns, file_digest(file))


def file_digest(file: Path) -> str:
    """SHA-256 (hex) of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True)
class Matches:
    """What a search found: row i belongs to query i, most similar first.

    Attributes:
        rows: (Q, k') int64, positions in the index.
        similarities: (Q, k') float32 cosines; k' is at most the number of images.
        images: the found images of each query.
    """

    rows: Ints
    similarities: Floats
    images: tuple[tuple[IndexedImage, ...], ...]


@dataclass(frozen=True)
class Changes:
    """Counts of an update."""

    added: int
    replaced: int


class ImageIndex:
    """An index in memory; `load` opens one from disk, `save` keeps it there.

    Args:
        fingerprint: of the model whose vectors it holds (`models.checkpoint.fingerprint`).
        dim: width of the vectors.
        engine: of `engines.ENGINES`; built when first needed.
        root: folder that the paths are relative to, kept for those who want to open the images.
    """

    def __init__(self, fingerprint: str, dim: int, *, engine: str = "exact", root: str = "") -> None:
        check_at_least("dim", dim, 1)
        look_up(ENGINES, engine, "search engine")
        self.fingerprint = fingerprint
        self.dim = dim
        self.engine = engine
        self.root = root
        self._images: list[IndexedImage] = []
        self._row: dict[str, int] = {}
        self._vectors: Floats = np.empty((0, dim), dtype=np.float32)
        self._searcher: Engine | None = None

    def __len__(self) -> int:
        return len(self._images)

    def __contains__(self, path: str) -> bool:
        return path in self._row

    @property
    def images(self) -> tuple[IndexedImage, ...]:
        """Every image, in row order."""
        return tuple(self._images)

    @property
    def vectors(self) -> Floats:
        """The unit vectors, (N, dim), in row order; read only."""
        view = self._vectors.view()
        view.setflags(write=False)
        return view

    def add(self, images: Sequence[IndexedImage], embeddings: Floats, *, fingerprint: str) -> None:
        """Adds images that are not in the index yet.

        Raises:
            ArgumentError: a path that is there already or comes twice, another model's vectors, shapes that
                do not fit, or a vector without direction (zero or not finite).
        """
        known = [image.path for image in images if image.path in self._row]
        if known:
            raise ArgumentError(
                f"{len(known)} images are in the index already, such as '{known[0]}'; upsert replaces them"
            )
        self.upsert(images, embeddings, fingerprint=fingerprint)

    def upsert(self, images: Sequence[IndexedImage], embeddings: Floats, *, fingerprint: str) -> Changes:
        """Adds images, replacing those whose path is there already; raises as `add` does otherwise."""
        units = self._units(embeddings, fingerprint, "image", [image.path for image in images])
        if len(units) != len(images):
            raise ArgumentError(f"{len(images)} images but {len(units)} embeddings")
        paths = [image.path for image in images]
        if len(set(paths)) != len(paths):
            twice = next(path for place, path in enumerate(paths) if path in paths[:place])
            raise ArgumentError(f"image '{twice}' comes twice in one update")
        old = [place for place, path in enumerate(paths) if path in self._row]
        new = [place for place, path in enumerate(paths) if path not in self._row]
        if old:
            self._vectors = np.array(self._vectors)
            for place in old:
                row = self._row[paths[place]]
                self._vectors[row], self._images[row] = units[place], images[place]
        for place in new:
            self._row[paths[place]] = len(self._images)
            self._images.append(images[place])
        if new:
            self._vectors = np.concatenate([self._vectors, units[new]])
        self._searcher = None
        return Changes(len(new), len(old))

    def delete(self, paths: Iterable[str]) -> int:
        """Removes images by path and returns how many; the rows behind them move up.

        Raises:
            ArgumentError: a path that is not in the index; then nothing is removed.
        """
        gone = set(paths)
        unknown = gone - self._row.keys()
        if unknown:
            raise ArgumentError(f"{len(unknown)} images are not in the index, such as '{min(unknown)}'")
        kept = [row for row, image in enumerate(self._images) if image.path not in gone]
        self._vectors = self._vectors[kept]
        self._images = [self._images[row] for row in kept]
        self._row = {image.path: row for row, image in enumerate(self._images)}
        self._searcher = None
        return len(gone)

    def is_current(self, path: str, file: Path) -> bool:
        """Whether the index holds this very file: same size and time, or same content under a new time."""
        row = self._row.get(path)
        if row is None:
            return False
        known, facts = self._images[row], file.stat()
        if known.size != facts.st_size:
            return False
        return known.modified == facts.st_mtime_ns or known.digest == file_digest(file)

    def search(self, queries: Floats, k: int = 10, *, fingerprint: str) -> Matches:
        """The `k` most similar images of each query (all of them if there are fewer).

        Args:
            queries: (Q, dim) embeddings, of any length.
            k: how many.
            fingerprint: of the model that embedded the queries.

        Raises:
            ArgumentError: another model's vectors, shapes that do not fit, or a vector without direction.
        """
        check_at_least("k", k, 1)
        units = self._units(queries, fingerprint, "query", [])
        if not self._images or not len(units):
            nothing = (len(units), 0)
            return Matches(np.empty(nothing, np.int64), np.empty(nothing, np.float32), ((),) * len(units))
        rows, similarities = self._engine().search(units, k)
        found = tuple(tuple(self._images[row] for row in line) for line in rows.tolist())
        return Matches(rows, similarities, found)

    def check(self, *, k: int = 10, sample: int = 500, seed: int = 0) -> float:
        """Share of the true `k` nearest images that the engine finds, on a sample; 1 for the exact one."""
        return overlap(self._engine(), self._vectors, k=k, sample=sample, seed=seed) if len(self) else 1.0

    def save(self, folder: str | Path) -> None:
        """Writes the index into `folder` (made if absent); readers see the old one until the last step."""
        names = [field.name for field in fields(IndexedImage)]
        facts = {"fingerprint": self.fingerprint, "dim": self.dim, "engine": self.engine, "root": self.root}
        columns = {name: [getattr(image, name) for image in self._images] for name in names}
        write_index(Path(folder), facts, columns, self._vectors)

    @classmethod
    def load(cls, folder: str | Path) -> "ImageIndex":
        """Opens an index; its vectors stay on disk until they are needed.

        Raises:
            FileError: no index there, one that is damaged, or one of another format.
        """
        facts, columns, vectors = read_index(Path(folder))
        index = cls(facts["fingerprint"], facts["dim"], engine=facts["engine"], root=facts["root"])
        index._vectors = vectors
        index._images = [IndexedImage(*row) for row in zip(*columns.values(), strict=True)]
        index._row = {image.path: row for row, image in enumerate(index._images)}
        return index

    def _engine(self) -> Engine:
        if self._searcher is None:
            self._searcher = ENGINES[self.engine](self._vectors)
        return self._searcher

    def _units(self, embeddings: Floats, fingerprint: str, what: str, names: Sequence[str]) -> Floats:
        """Vectors of unit length, after the checks that every vector passes on its way in."""
        if fingerprint != self.fingerprint:
            raise ArgumentError(
                f"this index holds vectors of model {self.fingerprint[:12]}, the {what} vectors are of model "
                f"{fingerprint[:12]}; embed them with the index's model or build another index"
            )
        vectors = np.asarray(embeddings, dtype=np.float32)
        if vectors.ndim != 2 or vectors.shape[1] != self.dim:
            raise ArgumentError(f"{what} vectors have shape {vectors.shape}; expected (N, {self.dim})")
        lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
        bad = ~np.isfinite(lengths) | (lengths == 0)
        if bad.any():
            first = int(bad.argmax())
            where = f" ('{names[first]}')" if first < len(names) else ""
            raise ArgumentError(
                f"{what} vector {first}{where} has no direction (zero or not finite); {int(bad.sum())} in all"
            )
        units: Floats = (vectors / lengths[:, None]).astype(np.float32)
        return units
