"""Bringing an index up to date with a set of images, and asking it with image files.

An index folder is complete: beside the vectors it keeps a copy of the model that made them (`model/`), so a
search needs nothing but the folder and the images that are asked for.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.data.dataset import LabeledImages
from lookalike.data.read import read
from lookalike.embedding import embed
from lookalike.errors import ArgumentError
from lookalike.models.checkpoint import fingerprint, load_model, save_model
from lookalike.search.index import ImageIndex, IndexedImage
from lookalike.utils.device import pick_device
from lookalike.utils.progress import Progress

MODEL = "model"


@dataclass(frozen=True)
class Hit:
    """An image of the index and its cosine similarity to the query."""

    path: str
    file: Path
    label: str
    similarity: float


@dataclass(frozen=True)
class QueryHits:
    """A query image and what was found for it, most similar first."""

    query: str
    hits: tuple[Hit, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        hits = [{"path": hit.path, "label": hit.label, "similarity": hit.similarity} for hit in self.hits]
        return {"query": self.query, "hits": hits}


@dataclass(frozen=True)
class IndexReport:
    """What bringing an index up to date changed; prints as one line."""

    folder: Path
    images: int
    added: int
    replaced: int
    unchanged: int
    removed: int

    def __str__(self) -> str:
        return (
            f"{self.folder}: {self.images} images ({self.added} added, {self.replaced} replaced, "
            f"{self.unchanged} unchanged, {self.removed} removed)"
        )


def build_index(
    run: str | Path,
    images: str | Path,
    out: str | Path,
    *,
    engine: str = "exact",
    device: str = "auto",
    progress: Progress | None = None,
) -> IndexReport:
    """Makes the index folder `out` hold exactly the images of `images`, embedded by the run's model.

    If `out` is an index already, images whose file did not change are not embedded again, changed ones are
    replaced and vanished ones removed.

    Args:
        run: a run or model folder.
        images: whatever `data.readers.read` takes: a folder, a table, an archive, "glyphs".
        out: the index folder.
        engine: of `search.ENGINES`, for a new index.
        device: "auto", "cpu", "cuda" or "mps".
        progress: told about the embedding.

    Raises:
        ArgumentError: `out` was built by another model, or for images of another root folder.
        FileError: no model in `run`.
        DataError: images that cannot be read.
    """
    embedder, config = load_model(run)
    own = fingerprint(embedder)
    table, out = read(images, labeled=False), Path(out)
    root = str(table.root.resolve())
    if (out / "index.json").is_file():
        index = ImageIndex.load(out)
        if index.fingerprint != own:
            raise ArgumentError(
                f"index '{out}' was built by model {index.fingerprint[:12]}, '{run}' holds {own[:12]}; give "
                "another --out, or remove the folder to build it anew"
            )
        if index.root != root:
            raise ArgumentError(
                f"index '{out}' holds images of '{index.root}', not of '{root}'; give another --out"
            )
    else:
        index = ImageIndex(own, embedder.embedding_dim, engine=engine, root=root)
        save_model(out / MODEL, embedder, class_names=config["class_names"])
    stale = [row for row, path in enumerate(table.paths) if not index.is_current(path, table.file(row))]
    gone = {image.path for image in index.images} - set(table.paths)
    index.delete(gone)
    part = table.rows(stale)
    facts = [
        IndexedImage.of_file(part.file(row), path, part.class_names[part.labels[row]])
        for row, path in enumerate(part.paths)
    ]
    added = replaced = 0
    if facts:
        place = pick_device(device)
        vectors = embed(embedder.to(place), part, device=place, progress=progress).matrix
        changes = index.upsert(facts, vectors, fingerprint=own)
        added, replaced = changes.added, changes.replaced
    index.save(out)
    return IndexReport(out, len(index), added, replaced, len(table) - len(stale), len(gone))


def search_images(
    index: str | Path, images: Sequence[str | Path], *, k: int = 10, sample: int = 0, device: str = "auto"
) -> tuple[QueryHits, ...]:
    """The `k` images of the index most similar to each image file, most similar first.

    Args:
        index: an index folder.
        images: image files.
        k: how many.
        sample: ask also with so many images of the index, drawn evenly; each leaves itself out.
        device: "auto", "cpu", "cuda" or "mps".

    Raises:
        FileError: no index, or no file of that name.
        ArgumentError: no image to look for.
        DataError: a file that is no image.
    """
    opened = ImageIndex.load(index)
    root = Path(opened.root)
    drawn = np.linspace(0, len(opened) - 1, num=min(sample, len(opened))).astype(int)
    own = [opened.images[row].path for row in drawn]
    images = [*images, *(root / path for path in own)]
    embedder, _ = load_model(Path(index) / MODEL)
    place = pick_device(device)
    queries = embed(embedder.to(place), _table(images), workers=0, device=place).matrix
    found = opened.search(queries, k + (1 if own else 0), fingerprint=fingerprint(embedder))
    itself = [None] * (len(images) - len(own)) + own
    return tuple(
        QueryHits(
            str(query),
            tuple(
                Hit(image.path, root / image.path, image.label, float(similarity))
                for image, similarity in zip(line, similarities, strict=True)
                if image.path != left_out
            )[:k],
        )
        for query, left_out, line, similarities in zip(
            images, itself, found.images, found.similarities, strict=True
        )
    )


def _table(images: Sequence[str | Path]) -> LabeledImages:
    if not images:
        raise ArgumentError("no image to look for; name at least one file")
    files = [Path(image).resolve() for image in images]
    root = Path(os.path.commonpath([file.parent for file in files]))
    paths = tuple(file.relative_to(root).as_posix() for file in files)
    return LabeledImages(root, paths, np.zeros(len(paths), dtype=np.int64), ("query",), name="queries")
