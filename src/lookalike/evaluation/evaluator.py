"""`evaluate`: embeddings and labels in, a `RetrievalResult` with everything counted out.

Checks stand here, once; who is near whom is decided in `lookalike.ranking`; formulas are in `metrics`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from lookalike.errors import ArgumentError
from lookalike.evaluation.clustering import Clustering, cluster_scores
from lookalike.evaluation.metrics import mean_by_class
from lookalike.evaluation.per_query import TIES, Asked, measure_queries
from lookalike.evaluation.result import RetrievalResult
from lookalike.ranking import Comparison, Vectors
from lookalike.utils.distributed import Processes
from lookalike.utils.validation import check_at_least, check_choice

LONE = ("exclude", "miss")


def evaluate(
    embeddings: Any,
    labels: Any,
    *,
    query: Any = None,
    gallery: Any = None,
    gallery_embeddings: Any = None,
    gallery_labels: Any = None,
    ks: Sequence[int] = (1, 2, 4, 8),
    similarity: str = "cosine",
    ties: str = "index",
    lone: str = "exclude",
    clustering: bool | Clustering = False,
    class_names: Sequence[str] | None = None,
    processes: Processes | None = None,
    memory_mb: float = 900,
    query_block: int | None = None,
    gallery_block: int | None = None,
    device: str | torch.device | None = None,
) -> RetrievalResult:
    """Every retrieval metric of one set of embeddings, exactly.

    Args:
        embeddings: (N, D) floating tensor or array, any precision, memory-mapped or not; never changed.
        labels: (N,) integers.
        query: rows that ask, as a boolean mask or row numbers; all rows by default.
        gallery: rows that can be found, likewise; all rows by default. A query's own row is removed by its
            position, and only that: an exact copy of it stays.
        gallery_embeddings, gallery_labels: a gallery of its own; then every row of `embeddings` asks (or
            those of `query`) and no row is removed.
        ks: the K of recall_at_K, precision_at_K and ir_recall_at_K. One larger than the gallery is clipped,
            and the result says so.
        similarity: 'cosine', 'dot' or 'euclidean' (on the vectors as they are).
        ties: order of equally similar rows: by 'index', 'optimistic' (right ones first), 'pessimistic' (wrong
            ones first) or 'expected' (mean over all orders).
        lone: queries with nothing to find: 'exclude' (left out of every mean, counted) or 'miss' (score 0).
        clustering: also NMI and AMI of the rows that ask, by k-means: True, or a `Clustering`.
        class_names: names by class number, for counts and per-class values.
        processes: `Processes.all()` shares the queries among the processes of torch.distributed: each calls
            `evaluate` with the whole input, and each gets the whole result, the same digits as from one.
        memory_mb: bound on working memory beyond the input; sets the block sizes.
        query_block, gallery_block: rows compared at a time instead; the result is the same.
        device: where to compare; by default where the gallery is.

    Raises:
        ArgumentError: shapes that do not fit, labels that are not integers, rows that are not finite, an
            unknown word, an empty selection.
    """
    check_choice("ties", ties, TIES)
    check_choice("lone", lone, LONE)
    check_at_least("memory_mb", memory_mb, 1)
    ks = _check_ks(ks)
    names = _shape_of(embeddings, "embeddings")
    query_labels = _labels(labels, names, "labels", "embeddings")
    if (gallery_embeddings is None) != (gallery_labels is None):
        raise ArgumentError("gallery_embeddings and gallery_labels belong together; give both or none")
    where = _device(embeddings if gallery_embeddings is None else gallery_embeddings, device)
    asking = _selection(query, names, "query")
    if gallery_embeddings is None:
        found = _selection(gallery, names, "gallery")
        gallery_classes = query_labels[found]
        own = np.full(names, -1, dtype=np.int64)
        own[found] = np.arange(len(found))
        own = own[asking]
        source, what = embeddings, "embeddings"
    else:
        if gallery is not None:
            raise ArgumentError("gallery= selects rows of embeddings; it cannot go with gallery_embeddings=")
        rows = _shape_of(gallery_embeddings, "gallery_embeddings")
        gallery_classes = _labels(gallery_labels, rows, "gallery_labels", "gallery_embeddings")
        found, own = np.arange(rows), None
        source, what = gallery_embeddings, "gallery embeddings"
    keep = (len(found) + len(asking)) * source.shape[1] * 4 <= memory_mb * 2**20 / 2
    right = Vectors(
        source,
        similarity,
        what=what,
        device=where,
        keep=keep,
        rows=None if len(found) == len(source) else found,
    )
    left = (
        right
        if own is not None and np.array_equal(asking, found)
        else Vectors(
            embeddings,
            similarity,
            what="embeddings",
            device=where,
            keep=keep,
            rows=None if len(asking) == names else asking,
        )
    )
    asking_labels = query_labels[asking]
    asked = Asked(asking_labels, gallery_classes, own)
    most = max(1, len(found) - (1 if own is not None and bool((own >= 0).all()) else 0))
    clipped = {k: most for k in ks if k > most}
    measured, tied = measure_queries(
        Comparison(left, right),
        asked,
        sorted({min(k, most) for k in ks}),
        ties=ties,
        memory_mb=memory_mb,
        query_block=query_block,
        gallery_block=gallery_block,
        processes=processes or Processes(),
    )
    per_query = _under_asked_names(measured, ks, most)
    alone = asked.relevant() == 0
    if lone == "miss":
        for column in per_query.values():
            column[alone] = 0.0
    counts = _counts(asking_labels, gallery_classes, alone, tied, right, class_names, lone)
    counts["clipped_k"] = {str(k): value for k, value in clipped.items()}
    scored = ~alone if lone == "exclude" else np.ones(len(alone), dtype=bool)
    values = {key: _mean(column[scored]) for key, column in per_query.items()}
    clustered = None
    if clustering:
        how = clustering if isinstance(clustering, Clustering) else Clustering()
        scores = cluster_scores(
            embeddings[asking] if len(asking) < names else embeddings,
            asking_labels,
            clustering=how,
            normalize=similarity == "cosine",
        )
        clustered = scores.pop("settings")
        values |= scores
    return RetrievalResult(
        values=values,
        class_average={
            key: _mean(mean_by_class(column, asking_labels)[1]) for key, column in per_query.items()
        },
        counts=counts,
        per_query=per_query,
        labels=asking_labels,
        rows=asking,
        settings={"similarity": similarity, "ties": ties, "lone": lone, "ks": list(ks)},
        clustering=clustered,
        class_names=None if class_names is None else tuple(class_names),
        notes=tuple(_notes(counts, lone)),
    )


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _device(source: Any, device: str | torch.device | None) -> torch.device:
    if device is not None:
        return torch.device(device)
    return source.device if torch.is_tensor(source) else torch.device("cpu")


def _check_ks(ks: Sequence[int]) -> list[int]:
    numbers = sorted({int(k) for k in ks})
    if not numbers or numbers[0] < 1:
        raise ArgumentError(f"ks is {list(ks)}; give at least one K, each at least 1")
    return numbers


def _shape_of(matrix: Any, what: str) -> int:
    shape = getattr(matrix, "shape", None)
    if shape is None or len(shape) != 2 or shape[0] == 0 or shape[1] == 0:
        found = "no shape" if shape is None else f"shape {tuple(shape)}"
        raise ArgumentError(f"{what} has {found}; expected a matrix (N, D) with at least one row and column")
    return int(shape[0])


def _labels(labels: Any, rows: int, what: str, of: str) -> np.ndarray:
    array = labels.detach().cpu().numpy() if torch.is_tensor(labels) else np.asarray(labels)
    if array.shape != (rows,):
        raise ArgumentError(f"{what} has shape {array.shape}; expected ({rows},), one for each row of {of}")
    if not np.issubdtype(array.dtype, np.integer):
        raise ArgumentError(f"{what} has dtype {array.dtype}; expected integers (class numbers)")
    return array.astype(np.int64)


def _selection(which: Any, rows: int, what: str) -> np.ndarray:
    """Row numbers of a mask or an index array, in the order given."""
    if which is None:
        return np.arange(rows)
    array = which.detach().cpu().numpy() if torch.is_tensor(which) else np.asarray(which)
    if array.dtype == bool:
        if array.shape != (rows,):
            raise ArgumentError(f"{what} is a mask of shape {array.shape}; expected ({rows},)")
        array = array.nonzero()[0]
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer) or len(array) == 0:
        raise ArgumentError(f"{what} selects no rows; give a boolean mask or row numbers")
    array = array.astype(np.int64)
    if array.min() < 0 or array.max() >= rows:
        raise ArgumentError(
            f"{what} names row {array.max() if array.max() >= rows else array.min()} of {rows}"
        )
    if len(np.unique(array)) != len(array):
        raise ArgumentError(f"{what} names a row twice; every row asks or is found once")
    return array


def _under_asked_names(
    measured: dict[str, np.ndarray], ks: Sequence[int], most: int
) -> dict[str, np.ndarray]:
    """The columns by the K that was asked for, where it was clipped."""
    by_k = {
        f"{kind}_at_{k}": measured[f"{kind}_at_{min(k, most)}"].copy()
        for kind in ("recall", "precision", "ir_recall")
        for k in ks
    }
    return {**by_k, **{key: measured[key] for key in ("map_at_r", "r_precision", "mrr")}}


def _counts(
    asking: np.ndarray,
    gallery: np.ndarray,
    alone: np.ndarray,
    tied: np.ndarray,
    right: Vectors,
    class_names: Sequence[str] | None,
    lone: str,
) -> dict[str, Any]:
    lone_classes = np.unique(asking[alone])
    named = [class_names[c] if class_names is not None else int(c) for c in lone_classes]
    return {
        "queries": len(asking),
        "gallery": len(gallery),
        "classes": len(np.unique(asking)),
        "scored": int(len(asking) if lone == "miss" else (~alone).sum()),
        "lone": int(alone.sum()),
        "lone_classes": named,
        "tied_queries": int(tied.sum()),
        "duplicates": len(right) - len(np.unique(right.digest_rows())),
    }


def _notes(counts: dict[str, Any], lone: str) -> list[str]:
    notes = []
    if counts["lone"]:
        done = "left out" if lone == "exclude" else "counted as misses"
        notes.append(
            f"{counts['lone']:,} of {counts['queries']:,} queries have nothing to find "
            f"({len(counts['lone_classes']):,} classes): {done}"
        )
    if counts["tied_queries"]:
        notes.append(f"{counts['tied_queries']:,} queries have a right and a wrong row exactly as similar")
    if counts["duplicates"]:
        notes.append(f"{counts['duplicates']:,} gallery rows are exact copies of another")
    for k, value in counts["clipped_k"].items():
        notes.append(f"K = {k} is more than a query can find; clipped to {value}")
    return notes
