"""Scores of a table's images and of a run's model; the one place that says which rows are queries and which gallery.

`score` is used by training, by `evaluate RUN` and by the report, so their numbers agree by construction.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.data.dataset import LabeledImages
from lookalike.embedding import embed
from lookalike.errors import DataError
from lookalike.evaluation import RetrievalResult, evaluate
from lookalike.models.checkpoint import load_model
from lookalike.training.context import RunContext
from lookalike.training.run_dir import RunDir
from lookalike.training.run_images import load_named_or_own
from lookalike.training.start_from import own_split
from lookalike.utils.device import pick_device
from lookalike.utils.progress import Progress


def check_roles(table: LabeledImages) -> None:
    """Refuses data that separates queries from gallery and has none of the one or the other.

    Raises:
        DataError: with what is missing.
    """
    for role, rows in (("query", table.queries()), ("gallery", table.gallery())):
        if len(rows) == 0:
            raise DataError(
                f"{table.name}: none of these {len(table)} images is a {role} image, so nothing can be measured; mark "
                f"some as {role}"
            )


def score(table: LabeledImages, matrix: NDArray[np.float32], **options: Any) -> RetrievalResult:
    """Every image is a query against all others, or, where the data has roles, the queries against the gallery.

    Raises:
        DataError: no query, or no gallery.
    """
    check_roles(table)
    roles = table.role is not None
    return evaluate(
        matrix,
        table.labels,
        query=table.queries() if roles else None,
        gallery=table.gallery() if roles else None,
        class_names=table.class_names,
        **options,
    )


def score_in_run(context: RunContext, table: LabeledImages, matrix: NDArray[np.float32]) -> RetrievalResult:
    """`score` on the run's device, shared among its processes."""
    return score(table, matrix, processes=context.processes, device=context.fabric.device)


def evaluate_run(
    folder: RunDir,
    data: str | None = None,
    *,
    reading_options: Mapping[str, Any] | None = None,
    on_bad_file: str = "skip",
    device: str = "auto",
    progress: Progress | None = None,
    **options: Any,
) -> RetrievalResult:
    """Scores a run's model.

    Measured on the run's own test classes if `data` is None or the data that it was trained on; on the test
    split of other data that names one; on all images of other data otherwise. The result's notes say which,
    and name classes that were trained on.

    Args:
        reading_options, on_bad_file: see `load_named_or_own`.

    Raises:
        FileError: no run, or no model in it.
        DataError: the run's own data is not where it was.
    """
    embedder, config = load_model(folder.path)
    table = load_named_or_own(
        folder, data, options=reading_options, on_bad_file=on_bad_file, progress=progress
    )
    split = own_split(folder, table)
    if data is None and split is None:
        raise DataError(
            f"the data at '{table.source}' changed since the run '{folder.path}'; name the data to use"
        )
    if split is not None:
        part = split.test
        where = f"measured on the run's own {part.num_classes} test classes"
    elif "test" in table.splits():
        part = table.part("test")
        where = f"measured on the test split of {table.name}, {part.num_classes} classes"
    else:
        part = table
        where = f"measured on all {part.num_classes} classes of {table.name}"
    known = set(part.class_names) & set(config["class_names"])
    trained = f"; {len(known)} of them have names that training also had" if known else ""
    target = pick_device(device)
    embeddings = embed(embedder, part, device=target, progress=progress)
    result = score(part, embeddings.matrix, device=target, **options)
    return replace(result, notes=(where + trained, *result.notes))
