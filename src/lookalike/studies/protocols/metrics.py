"""Computes the metrics of `metric_keys` from test embeddings and from a run's log."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lookalike.data.dataset import LabeledImages
from lookalike.evaluation.clustering import cluster_scores
from lookalike.ranking import nearest
from lookalike.studies.metric_keys import CLUSTERING, COSTS, SIMILARITIES, split_key
from lookalike.training.evaluate_run import score
from lookalike.training.step_log import peak_memory_gb

Matrix = NDArray[np.float32]


def measure(
    table: LabeledImages,
    matrix: Matrix,
    keys: tuple[str, ...],
    *,
    similarity: str = "cosine",
    seed: int = 0,
    device: torch.device | None = None,
) -> dict[str, float]:
    """The retrieval and clustering metrics among `keys`, of embeddings (N, D) of the images of `table`.

    Args:
        similarity: "cosine", or "euclidean" of raw vectors; for keys that do not say it themselves.
        device: where embeddings are compared; None: on the CPU.
    """
    found: dict[str, float] = {}
    for by in SIMILARITIES:
        wanted = {
            key: plain
            for key, (named, plain) in ((key, split_key(key)) for key in keys)
            if plain not in COSTS and (named or similarity) == by
        }
        retrieval = {key: plain for key, plain in wanted.items() if plain not in CLUSTERING}
        if retrieval:
            ks = sorted(
                {int(plain.rsplit("_", 1)[1]) for plain in retrieval.values() if "recall_at_" in plain}
            )
            values = score(table, matrix, ks=ks or [1], similarity=by, device=device).values
            found |= {key: values[plain] for key, plain in retrieval.items()}
        if len(retrieval) < len(wanted):
            scores = cluster_scores(matrix, table.labels, seed=seed, normalize=by == "cosine")
            found |= {key: scores[plain] for key, plain in wanted.items() if plain in CLUSTERING}
    return found


def costs(keys: tuple[str, ...], curve: list[dict[str, float]], epoch: int) -> dict[str, float]:
    """The costs among `keys`, where they could be measured.

    Args:
        curve: seconds of training so far and steps, by epoch; see `training_curve`.
        epoch: the selected one.
    """
    found: dict[str, float] = {}
    if len(curve) > 1:
        total = curve[-1]["seconds"]
        found["seconds_per_epoch"] = total / (len(curve) - 1)
        found["hours_to_convergence"] = curve[min(epoch, len(curve) - 1)]["seconds"] / 3600
        if steps := sum(point["steps"] for point in curve):
            found["seconds_per_iteration"] = total / steps
    if torch.cuda.is_available():
        found["peak_memory_gb"] = peak_memory_gb(torch.device("cuda"))
    return {key: value for key, value in found.items() if key in keys}


def reset_peak_memory() -> None:
    """Restarts the measurement of peak CUDA memory."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


SHOWN_QUERIES, SHOWN_HITS = 8, 4


def retrievals(table: LabeledImages, matrix: Matrix) -> list[dict[str, Any]]:
    """The nearest images, by cosine, of one query of each of a few evenly spaced classes.

    Returns:
        For each query its file, and of each hit the file and whether it is of the query's class.
    """
    queries, gallery, labels = table.queries(), table.gallery(), table.labels
    classes, first = np.unique(labels[queries], return_index=True)
    spaced = np.linspace(0, len(classes) - 1, min(SHOWN_QUERIES, len(classes))).astype(int)
    rows = queries[first[spaced]]
    position = np.full(len(table), -1)
    position[gallery] = np.arange(len(gallery))
    hits, _ = nearest(matrix[rows], matrix[gallery], SHOWN_HITS, self_index=position[rows])
    return [
        {
            "query": str(table.file(row)),
            "hits": [
                {"file": str(table.file(hit)), "same_class": bool(labels[hit] == labels[row])}
                for hit in gallery[found].tolist()
            ],
        }
        for row, found in zip(rows.tolist(), hits, strict=True)
    ]
