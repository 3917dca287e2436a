"""Nearest images of a sample of a data set's queries, for the parts of a report that show examples.

Legend: Q sampled queries, N gallery rows, K hits.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookalike.data.dataset import LabeledImages
from lookalike.ranking import nearest

MOST_QUERIES = 4000

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Retrieved:
    """Hits of some queries.

    Attributes:
        table: the images.
        unit: (rows of the table, D) embeddings of unit length.
        queries: (Q,) rows of the table.
        gallery: (N,) rows of the table that can be retrieved.
        hits: (Q, K) rows of the table, most similar first.
        similarities: (Q, K) cosines.
    """

    table: LabeledImages
    unit: NDArray[np.float32]
    queries: Integers
    gallery: Integers
    hits: Integers
    similarities: NDArray[np.float32]

    @property
    def correct(self) -> NDArray[np.bool_]:
        """(Q, K) whether the hit has the query's class."""
        correct: NDArray[np.bool_] = self.table.labels[self.hits] == self.table.labels[self.queries][:, None]
        return correct

    def class_name(self, row: int) -> str:
        """Class of a row of the table."""
        return self.table.class_names[int(self.table.labels[row])]

    def nearest_positive(self, query: int) -> tuple[int, float, int] | None:
        """Row, cosine and rank of the nearest gallery image of the class of the table's row `query`."""
        others = self.gallery[self.gallery != query]
        sims = self.unit[others] @ self.unit[query]
        positive = (self.table.labels[others] == self.table.labels[query]).nonzero()[0]
        if len(positive) == 0:
            return None
        best = positive[sims[positive].argmax()]
        return int(others[best]), float(sims[best]), 1 + int((sims > sims[best]).sum())


def retrieve(table: LabeledImages, embeddings: NDArray[np.float32], *, k: int, seed: int) -> Retrieved:
    """The k nearest gallery images of at most MOST_QUERIES queries, drawn with `seed`."""
    queries, gallery = table.queries(), table.gallery()
    if len(queries) > MOST_QUERIES:
        queries = np.sort(np.random.default_rng(seed).choice(queries, MOST_QUERIES, replace=False))
    position = np.full(len(table), -1)
    position[gallery] = np.arange(len(gallery))
    own = None if table.role is not None else position[queries]
    hits, similarities = nearest(embeddings[queries], embeddings[gallery], k, self_index=own)
    lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
    unit = embeddings / np.maximum(lengths, 1e-30)
    return Retrieved(table, unit.astype(np.float32), queries, gallery, gallery[hits], similarities)


def pair_similarities(
    found: Retrieved, *, seed: int, most: int = 1500
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Cosines of positive and of negative (query, gallery) pairs of at most `most` queries and gallery rows each.

    Every class that is sampled brings all its gallery rows, so that positives are not rare.
    """
    labels, generator = found.table.labels, np.random.default_rng(seed)
    queries, gallery = found.queries, found.gallery
    order = generator.permutation(np.unique(labels[queries]))
    sizes = np.bincount(labels[gallery], minlength=found.table.num_classes)[order]
    classes = order[: max(2, int(np.searchsorted(np.cumsum(sizes), most)))]
    queries = queries[np.isin(labels[queries], classes)][:most]
    gallery = gallery[np.isin(labels[gallery], classes)][: 2 * most]
    sims = found.unit[queries] @ found.unit[gallery].T
    same = labels[queries][:, None] == labels[gallery][None]
    other = queries[:, None] != gallery[None]
    return sims[same & other], sims[~same]


@dataclass(frozen=True)
class Confusion:
    """Two classes whose images are mistaken for each other.

    Attributes:
        first, second: class numbers; `first` is the class that is mistaken more often.
        mistaken: queries of `first` whose nearest image has class `second`, and the other way round.
        queries: sampled queries of either class.
        example: position in `Retrieved.queries` of the most similar mistake.
    """

    first: int
    second: int
    mistaken: tuple[int, int]
    queries: tuple[int, int]
    example: int


def find_confusions(found: Retrieved, *, most: int) -> list[Confusion]:
    """Pairs of classes whose queries retrieve each other first, the most frequent first."""
    labels = found.table.labels
    asked, answered = labels[found.queries], labels[found.hits[:, 0]]
    counts = np.bincount(asked, minlength=found.table.num_classes)
    return sorted(
        _confusions(asked, answered, counts, found.similarities[:, 0]),
        key=lambda one: (-sum(one.mistaken), -float(found.similarities[one.example, 0])),
    )[:most]


def _confusions(
    asked: Integers, answered: Integers, counts: Integers, similarities: NDArray[np.float32]
) -> Iterator[Confusion]:
    wrong = (asked != answered).nonzero()[0]
    pairs = np.sort(np.stack([asked[wrong], answered[wrong]], axis=1), axis=1)
    for low, high in np.unique(pairs, axis=0).tolist():
        mine = wrong[(pairs == (low, high)).all(axis=1)]
        forth = int((asked[mine] == low).sum())
        back = len(mine) - forth
        first, second = (low, high) if forth >= back else (high, low)
        yield Confusion(
            first,
            second,
            (max(forth, back), min(forth, back)),
            (int(counts[first]), int(counts[second])),
            int(mine[similarities[mine].argmax()]),
        )
