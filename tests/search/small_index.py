"""Indexes without a model: vectors, their images, and what a search gives."""

import numpy as np

from lookalike.search import IndexedFile
from lookalike.search.image_search import SearchOptions, search_images

DIM = 8
FINGERPRINT = "model"


def unit(count, seed=0):
    vectors = np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def fill(index, vectors, first=0, root="photos", **columns):
    with index.catalog.transaction():
        index.catalog.set_columns(dict.fromkeys(columns, "number"))
        known = {path.name: number for number, path in index.catalog.roots().items()}
        number = known.get(root) or index.catalog.add_root(index.folder.parent / root)
    rows = range(first, first + len(vectors))
    files = [
        IndexedFile(
            f"{row}.png", "even" if row % 2 == 0 else "odd", values={n: v[row] for n, v in columns.items()}
        )
        for row in rows
    ]
    index.add(files, [f"digest {row}" for row in rows], vectors, fingerprint=FINGERPRINT, root=number)


def counts(report):
    return report.added, report.known, report.relabeled, report.unchanged, report.missing, report.removed


def only(index, query, **options):
    (hits,) = search_images(index, [query], SearchOptions(**{"k": 99, **options}), device="cpu")
    return hits


def find_first(index):
    """The path of the image most similar to the second vector, searched by the process that this runs in."""
    with index:
        return index.search(unit(3)[1:2], 1, fingerprint=FINGERPRINT)[0][0].files[0].file.path
