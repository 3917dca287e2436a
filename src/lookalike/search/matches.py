"""The search itself: the engine's neighbors, joined with the catalog's files, until every query has `k` matches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.search.catalog import Catalog
from lookalike.search.engines import Engine, Floats, Ints
from lookalike.search.files import StoredFile, item_facts
from lookalike.search.where import Value

_WIDEN = 4


@dataclass(frozen=True)
class Match:
    """An image of the index that is similar to a query.

    Attributes:
        files: that hold it, identical in content (those that match the filter); the first one is shown.
        similarity: cosine, in [-1, 1].
        same_class: whether the similarity reaches the threshold; None without one.
    """

    files: tuple[StoredFile, ...]
    similarity: float
    same_class: bool | None = None

    def __repr__(self) -> str:
        return f"<Match {self.id}: {self.similarity:.3f}, '{self.path}', label '{self.label}'>"

    @property
    def id(self) -> int:
        """Of the image; stays the same when files are moved, and is never given to another."""
        return self.files[0].item

    @property
    def path(self) -> str:
        """Below its root folder."""
        return self.files[0].file.path

    @property
    def label(self) -> str:
        """Of the first file."""
        return self.files[0].file.label

    @property
    def values(self) -> Mapping[str, Value | None]:
        """The columns of the user's table."""
        return self.files[0].file.values

    @property
    def copies(self) -> tuple[str, ...]:
        """Paths of the other files."""
        return tuple(other.file.path for other in self.files[1:])

    @property
    def file(self) -> Path:
        """Where the image lay when it was indexed."""
        return self.files[0].location

    @property
    def missing(self) -> bool:
        """Whether the file is not there any more."""
        return not self.file.exists()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return item_facts(self.files) | {
            "similarity": round(self.similarity, 6),
            "same_class": self.same_class,
        }


def find_matches(
    catalog: Catalog,
    engine: Engine,
    units_QD: Floats,
    k: int,
    *,
    where: str | None,
    min_similarity: float,
    collapse: float | None,
    leave_out: Sequence[int | None] | None,
) -> tuple[tuple[Match, ...], ...]:
    """The matches of each query of unit length, as `ImageIndex.search` describes them.

    The engine is asked for more until they are enough.

    Raises:
        ArgumentError: a filter that cannot be parsed.
    """
    absent = list(leave_out) if leave_out is not None else [None] * len(units_QD)
    condition = catalog.where(where)
    allowed = None if condition is None else catalog.matching(condition)
    wanted = k + any(item is not None for item in absent)
    while True:
        found = engine.search(units_QD, wanted, allowed=allowed)
        files = catalog.files_of(np.unique(found.ids).tolist(), condition)
        lines = [
            _near(ids, similarities, files, min_similarity, out)
            for ids, similarities, out in zip(found.ids, found.similarities, absent, strict=True)
        ]
        if collapse is not None:
            lines = [
                (_first_of_each_group(engine, pairs, collapse, k), complete) for pairs, complete in lines
            ]
        exhausted = found.ids.shape[1] < wanted
        if exhausted or all(complete or len(line) >= k for line, complete in lines):
            break
        wanted *= _WIDEN
    return tuple(tuple(Match(tuple(files[item]), value) for item, value in line[:k]) for line, _ in lines)


def _near(
    ids: Ints,
    similarities: Floats,
    files: Mapping[int, list[StoredFile]],
    min_similarity: float,
    out: int | None,
) -> tuple[list[tuple[int, float]], bool]:
    """The ids and similarities of one query that may be shown, and whether looking further would add none."""
    near = similarities >= min_similarity
    pairs = zip(ids[near].tolist(), similarities[near].tolist(), strict=True)
    return [(i, s) for i, s in pairs if i in files and i != out], not near.all()


def _first_of_each_group(
    engine: Engine, pairs: list[tuple[int, float]], collapse: float, k: int
) -> list[tuple[int, float]]:
    """The pairs that are less similar than `collapse` to every pair before them that was kept; at most `k`."""
    vectors = engine.vectors(np.array([i for i, _ in pairs], dtype=np.int64))
    kept: list[int] = []
    for number in range(len(pairs)):
        if not kept or float((vectors[kept] @ vectors[number]).max()) < collapse:
            kept.append(number)
            if len(kept) == k:
                break
    return [pairs[number] for number in kept]
