"""Asking an index with image files or with its own images; what was found, as plain values.

An index folder is complete: besides the vectors it holds a copy of the model that made them (`model/`), so a
search needs nothing but the folder and the images that are asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.data.image_io import open_image
from lookalike.errors import ArgumentError, DataError
from lookalike.search.encoder import BATCH, ImageEncoder
from lookalike.search.engines import Floats
from lookalike.search.index import ImageIndex
from lookalike.search.matches import Match
from lookalike.utils.io import escape_surrogates
from lookalike.utils.validation import check_between
from lookalike.utils.what_is import similar_path


@dataclass(frozen=True)
class SearchOptions:
    """How to search; the command line, the page and the REST API share it.

    Attributes:
        k: how many images.
        where: a filter, such as "year >= 2020 and label in (a, b)"; None for none.
        threshold: images less similar than this are not of the query's class; None: the index's own, as
            `lookalike calibrate` left it, if it has one.
        hide_unknown: leave images below the threshold out instead of marking them.
        collapse: of images at least this similar to each other show the first only; None: show all.
    """

    k: int = 10
    where: str | None = None
    threshold: float | None = None
    hide_unknown: bool = False
    collapse: float | None = None


@dataclass(frozen=True)
class QueryHits:
    """A query image and what was found for it, most similar first; `error` says why there is nothing."""

    query: str
    hits: tuple[Match, ...] = ()
    threshold: float | None = None
    error: str = ""

    @property
    def unknown(self) -> bool:
        """Whether the index holds nothing of the query's class, as far as its threshold says."""
        return self.threshold is not None and not any(hit.same_class for hit in self.hits)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        if self.error:
            return {"query": escape_surrogates(self.query), "error": escape_surrogates(self.error)}
        return {
            "query": escape_surrogates(self.query),
            "unknown": self.unknown,
            "threshold": self.threshold,
            "hits": [hit.to_dict() for hit in self.hits],
        }


def search_vectors(
    index: ImageIndex,
    names: Sequence[str],
    vectors: Floats,
    options: SearchOptions,
    *,
    fingerprint: str,
    leave_out: Sequence[int | None] | None = None,
) -> tuple[QueryHits, ...]:
    """What an open index finds for query vectors of the model `fingerprint`; raises as `ImageIndex.search`."""
    threshold = options.threshold
    if threshold is not None:
        check_between("threshold", threshold, -1, 1)
    elif index.facts.threshold is not None:
        threshold = float(index.facts.threshold["similarity"])
    if options.hide_unknown and threshold is None:
        raise ArgumentError(
            "the index has no threshold to leave images out by; give --threshold, or run: lookalike calibrate"
        )
    found = index.search(
        vectors,
        options.k,
        fingerprint=fingerprint,
        where=options.where,
        min_similarity=threshold if options.hide_unknown and threshold is not None else -1.0,
        collapse=options.collapse,
        leave_out=leave_out,
    )
    return tuple(
        QueryHits(name, tuple(_judged(match, threshold) for match in line), threshold)
        for name, line in zip(names, found, strict=True)
    )


def search_images(
    index: str | Path,
    images: str | Path | Sequence[str | Path],
    options: SearchOptions | None = None,
    *,
    sample: int = 0,
    device: str = "auto",
) -> tuple[QueryHits, ...]:
    """What an index finds for image files, in their order; a file that is no image gets its error instead.

    Args:
        index: an index folder.
        images: image files; a text or path alone is one file.
        options: how to search.
        sample: ask also with so many images of the index, drawn evenly; each leaves itself out. Nothing is
            opened or embedded for them.
        device: "auto", "cpu", "cuda" or "mps".

    Raises:
        FileError: no index.
        ArgumentError: no image to look for, or a filter that cannot be parsed.
    """
    options = options or SearchOptions()
    images = [images] if isinstance(images, str | Path) else images
    with ImageIndex.open(index) as opened:
        ids = opened.catalog.ids()
        drawn = ids[np.linspace(0, len(ids) - 1, num=min(sample, len(ids))).astype(int)].tolist()
        if not images and not drawn:
            if sample and not len(ids):
                raise ArgumentError(f"the index '{index}' is empty; add images with: lookalike index")
            raise ArgumentError("no image to look for; name at least one file")
        answers = _for_files(opened, Path(index), images, options, device) if images else []
        if drawn:
            files = opened.files(drawn)
            names = [str(files[item][0].root / files[item][0].file.path) for item in drawn]
            answers += search_vectors(
                opened,
                names,
                opened.vectors(drawn),
                options,
                fingerprint=opened.facts.fingerprint,
                leave_out=drawn,
            )
    return tuple(answers)


def _for_files(
    index: ImageIndex, folder: Path, images: Sequence[str | Path], options: SearchOptions, device: str
) -> list[QueryHits]:
    """In batches, so that any number of query images fits into memory."""
    encoder = ImageEncoder.of_index(folder, device)
    found: list[QueryHits] = []
    for start in range(0, len(images), BATCH):
        found += _for_batch(index, encoder, images[start : start + BATCH], options)
    return found


def _for_batch(
    index: ImageIndex, encoder: ImageEncoder, images: Sequence[str | Path], options: SearchOptions
) -> list[QueryHits]:
    errors: dict[int, str] = {}
    tensors = []
    for number, image in enumerate(images):
        try:
            if not Path(image).exists():
                if str(image).startswith(("http:/", "https:/")):
                    raise DataError(f"{image}: an address, no file; download the image and name the file")
                raise DataError(f"{image}: no such file{similar_path(image)}")
            tensors.append(encoder.prepare(open_image(image)))
        except (DataError, OSError) as error:
            errors[number] = str(error)
    names = [str(image) for number, image in enumerate(images) if number not in errors]
    found = iter(
        search_vectors(index, names, encoder.encode(tensors), options, fingerprint=encoder.fingerprint)
    )
    return [
        QueryHits(str(image), error=errors[number]) if number in errors else next(found)
        for number, image in enumerate(images)
    ]


def _judged(match: Match, threshold: float | None) -> Match:
    return match if threshold is None else replace(match, same_class=match.similarity >= threshold)
