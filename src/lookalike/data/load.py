"""`load_images`: a data set read, its notes reported, and files that cannot be decoded left out.

The way in for every command that uses the pixels; `read_and_report` is its first half. Notes and skipped files
are warnings of the logger "lookalike", which reach standard error unless a program says otherwise.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.config.schema import DataSettings
from lookalike.data.dataset import LabeledImages
from lookalike.data.labels import is_unlabeled
from lookalike.data.read import read
from lookalike.data.screen import describe_skipped, drop_unreadable
from lookalike.utils.console import one_line
from lookalike.utils.progress import Progress

LOGGER = logging.getLogger("lookalike")


def is_gone(source: str) -> bool:
    """Whether data that a run names by its path is no longer there."""
    return source.startswith(("/", "~")) and not Path(source).expanduser().exists()


def reading(settings: DataSettings, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The arguments of `read` that an experiment sets, but for those that are `given`."""
    return {
        "layout": settings.layout,
        "verify": settings.verify,
        "ignore_labels": settings.ignore_labels,
        **(given or {}),
    }


def describe_table(table: LabeledImages) -> str:
    """What was read, before any image is decoded: images and classes, in all and in each split that the data names."""
    counts = [(name, table.rows(np.asarray(table.split == name)).present()) for name in table.splits()]
    parts = "; ".join(f"{name} {len(part):,} / {part.num_classes:,}" for name, part in counts)
    classes = "no labels" if is_unlabeled(table) else f"{len(np.unique(table.labels)):,} classes"
    return f"{table.name}: images {len(table):,}, {classes}" + (
        f" (images / classes: {parts})" if parts else ""
    )


def read_and_report(
    source: LabeledImages | str | Path,
    *,
    layout: str | None = None,
    verify: bool = True,
    labeled: bool = True,
    ignore_labels: Collection[str] = (),
    progress: Progress | None = None,
) -> LabeledImages:
    """The data set at `source`, or a table, after saying what it holds; its notes are reported and dropped."""
    if isinstance(source, LabeledImages):
        table = source
    else:
        table = read(source, layout=layout, verify=verify, labeled=labeled, ignore_labels=ignore_labels)
        (progress or Progress()).say(describe_table(table))
    for note in table.notes:
        LOGGER.warning("note: %s", one_line(note))
    return replace(table, notes=())


def load_images(
    source: LabeledImages | str | Path,
    *,
    layout: str | None = None,
    verify: bool = True,
    labeled: bool = True,
    ignore_labels: Collection[str] = (),
    on_bad_file: str = "skip",
    progress: Progress | None = None,
) -> LabeledImages:
    """The images of `source`, each of which can be decoded.

    Args:
        source: a table, or what `read` takes.
        layout, verify, labeled, ignore_labels: see `ReadOptions`.
        on_bad_file: "skip" leaves out files that cannot be decoded and names them, "fail" refuses them.
        progress: reports the check.

    Raises:
        DataError: the data cannot be read, or a file cannot be decoded and `on_bad_file` is "fail".
    """
    table = read_and_report(
        source,
        layout=layout,
        verify=verify,
        labeled=labeled,
        ignore_labels=ignore_labels,
        progress=progress,
    )
    whole, skipped = drop_unreadable(table, on_bad_file=on_bad_file, progress=progress)
    if skipped:
        LOGGER.warning("skipped: %s", one_line(describe_skipped(skipped, len(table))))
    return whole
