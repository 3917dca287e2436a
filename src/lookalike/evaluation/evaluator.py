"""`evaluate`: embeddings and labels in, a `RetrievalResult` with counts of everything left out."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import torch

from lookalike.errors import ArgumentError
from lookalike.evaluation.clustering import cluster_scores
from lookalike.evaluation.counts import count_everything, notes_of
from lookalike.evaluation.metrics import DEFAULT_KS
from lookalike.evaluation.open_set import evaluate_against_gallery, evaluate_open_set
from lookalike.evaluation.per_query import measure_queries
from lookalike.evaluation.result import RetrievalResult, mean_by_class
from lookalike.evaluation.rows import Side, Sides, choose_sides
from lookalike.ranking import SIMILARITIES, Comparison, Vectors, comparison_device
from lookalike.utils.device import free_memory_mb
from lookalike.utils.distributed import Processes
from lookalike.utils.validation import check_at_least, check_choice

NO_MATCH = ("exclude", "miss")
_LEAST_MEMORY_MB = 900


def evaluate(
    embeddings: Any,
    labels: Any,
    *,
    query: Any = None,
    gallery: Any = None,
    gallery_embeddings: Any = None,
    gallery_labels: Any = None,
    ks: Sequence[int] = DEFAULT_KS,
    similarity: str = "cosine",
    no_match: str = "exclude",
    ignore_labels: Collection[int] = (),
    clustering: bool = False,
    open_set: bool = False,
    class_names: Sequence[str] | None = None,
    processes: Processes | None = None,
    memory_mb: float | None = None,
    query_block: int | None = None,
    gallery_block: int = 8192,
    device: str | torch.device | None = None,
) -> RetrievalResult:
    """Every retrieval metric of one set of embeddings, exactly.

    Args:
        embeddings: (N, D) floating tensor or array, any precision, memory-mapped or not; never changed.
        labels: (N,) integers of any type, 0 or more.
        query: rows that are queries, as a boolean mask or row numbers; all rows by default.
        gallery: rows that can be retrieved, likewise; all rows by default. A query's own row is never
            retrieved; it is known by its position, so an exact copy of it can be.
        gallery_embeddings, gallery_labels: a separate gallery; then every row of `embeddings` (or those of
            `query`) is a query, and no row is left out as a query's own.
        ks: the K of recall_at_K, precision_at_K and ir_recall_at_K. A K beyond the gallery is clipped, and
            the result says so.
        similarity: 'cosine', 'dot' or 'euclidean' (on the vectors as they are).
        no_match: what a query without a gallery row of its class counts: 'exclude' (left out of every mean,
            and counted) or 'miss' (0).
        ignore_labels: rows with these labels are neither queries nor gallery; they are counted.
            Re-identification data sets mark junk with -1.
        clustering: also NMI and AMI of the queries, by k-means; see `cluster_scores`.
        open_set: also how well queries without their class in the gallery are separated from the others
            (`evaluation.open_set`): with a separate gallery those whose class it lacks; otherwise half of the
            classes are left out of the gallery.
        class_names: names by class number, for counts and per-class values.
        processes: `Processes.all()` shares the queries among the processes of torch.distributed: each calls
            `evaluate` with the whole input and gets the whole result, the same digits as from one process.
        memory_mb: bound on working memory beyond the input; by default 900, or three times the embeddings, and
            at most half of what a GPU has left.
        query_block, gallery_block: rows compared at a time instead; the result is the same.
        device: where to compare; by default where the gallery is.

    Raises:
        ArgumentError: shapes that do not fit, labels that are not integers of 0 or more, rows that are not
            finite, an unknown word, an empty selection.
    """
    ks = check_options(ks=ks, similarity=similarity, no_match=no_match)
    for what, block in (("query_block", query_block), ("gallery_block", gallery_block)):
        if block is not None:
            check_at_least(what, block, 1)
    sides = choose_sides(
        embeddings,
        labels,
        query=query,
        gallery=gallery,
        gallery_embeddings=gallery_embeddings,
        gallery_labels=gallery_labels,
        ignore_labels=ignore_labels,
    )
    query_set = sides.query_set
    comparison, memory_mb = _compare(
        sides, similarity=similarity, device=device, memory_mb=memory_mb, gallery_block=gallery_block
    )
    per_query, tied = measure_queries(
        comparison,
        query_set,
        ks,
        memory_mb=memory_mb,
        query_block=query_block,
        processes=processes or Processes(),
    )
    unmatched = query_set.count_positives() == 0
    if no_match == "miss":
        for column in per_query.values():
            column[unmatched] = 0.0
    counts = count_everything(
        query_set,
        comparison,
        ks=ks,
        tied=tied,
        ignored=sides.ignored,
        separate=sides.separate,
        class_names=class_names,
        no_match=no_match,
    )
    values = {key: _mean(column[~np.isnan(column)]) for key, column in per_query.items()}
    clustered = None
    if clustering:
        scores = cluster_scores(sides.queries.vectors(), query_set.labels, normalize=similarity == "cosine")
        clustered = scores.pop("settings")
        values |= scores
    figures = None
    if open_set:
        vectors = sides.queries.vectors()
        how: dict[str, Any] = {"similarity": similarity, "device": comparison.device}
        if sides.separate:
            others = sides.gallery.vectors(), query_set.gallery_labels
            figures = evaluate_against_gallery(vectors, query_set.labels, *others, **how)
        else:
            figures = evaluate_open_set(vectors, query_set.labels, class_names, **how)
    return RetrievalResult(
        values=values,
        class_average={
            key: _mean(mean_by_class(column, query_set.labels)[1]) for key, column in per_query.items()
        },
        counts=counts,
        per_query=per_query,
        labels=query_set.labels,
        rows=sides.queries.rows,
        settings={
            "similarity": similarity,
            "no_match": no_match,
            "ignore_labels": list(ignore_labels),
            "ks": list(ks),
        },
        clustering=clustered,
        open_set=figures,
        class_names=None if class_names is None else tuple(class_names),
        notes=tuple(notes_of(counts, no_match)),
    )


def _compare(
    sides: Sides,
    *,
    similarity: str,
    device: str | torch.device | None,
    memory_mb: float | None,
    gallery_block: int,
) -> tuple[Comparison, float]:
    """Both sides ready to be compared, and the memory that is left for it."""
    where = comparison_device(sides.gallery.matrix, device)
    rows = len(sides.gallery.rows) + (0 if sides.same else len(sides.queries.rows))
    prepared_mb = rows * sides.gallery.matrix.shape[1] * 4 / 2**20
    if memory_mb is None:
        memory_mb = min(max(_LEAST_MEMORY_MB, 3 * prepared_mb), free_memory_mb(where) / 2)
    check_at_least("memory_mb", memory_mb, 1)
    keep = prepared_mb <= memory_mb / 2

    def prepare(side: Side, what: str) -> Vectors:
        rows = None if side.whole else side.rows
        return Vectors(side.matrix, similarity, what=what, device=where, keep=keep, rows=rows)

    right = prepare(sides.gallery, "gallery embeddings" if sides.separate else "embeddings")
    left = right if sides.same else prepare(sides.queries, "embeddings")
    left_mb = memory_mb - (prepared_mb if keep else 0)
    return Comparison(left, right, gallery_block=gallery_block), min(left_mb, _LEAST_MEMORY_MB)


def check_options(
    *, ks: Sequence[int] = DEFAULT_KS, similarity: str = "cosine", no_match: str = "exclude"
) -> list[int]:
    """Refuses what `evaluate` would, so that nothing is embedded for it first; returns each K once, in order.

    Raises:
        ArgumentError: a K below 1, or an unknown word.
    """
    check_choice("similarity", similarity, SIMILARITIES)
    check_choice("no_match", no_match, NO_MATCH)
    numbers = sorted({int(k) for k in ks})
    if not numbers or numbers[0] < 1:
        raise ArgumentError(f"ks is {list(ks)}; give at least one K, each at least 1")
    return numbers


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")
