"""Labeled images of classes that a run's model was not trained on, on which thresholds are chosen."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lookalike.data.dataset import LabeledImages
from lookalike.errors import DataError
from lookalike.models.checkpoint import load_model
from lookalike.training.run_dir import RunDir
from lookalike.training.run_images import load_named_or_own
from lookalike.training.start_from import own_split
from lookalike.utils.progress import Progress

PARTS = ("auto", "validation", "test")


def held_out_images(
    folder: RunDir,
    data: str | None = None,
    *,
    part: str = "auto",
    reading_options: Mapping[str, Any] | None = None,
    on_bad_file: str = "skip",
    progress: Progress | None = None,
) -> tuple[LabeledImages, str]:
    """Images whose classes the run did not train on, and what they are, in words.

    Of the run's own data, which is taken where no `data` is named, these are its validation classes; its test classes
    if the run was refitted on the validation classes. Of other data they are all classes with names that training
    did not have.

    Args:
        part: "validation" or "test" insists on one part of the run's own data.
        reading_options, on_bad_file: see `load_named_or_own`.

    Raises:
        FileError: no model, or a run that has not ended.
        DataError: no class of `data` is new to the model, or `part` was trained on.
    """
    _, config = load_model(folder.path)
    table = load_named_or_own(
        folder, data, options=reading_options, on_bad_file=on_bad_file, progress=progress
    )
    split = own_split(folder, table) if folder.holds_run() else None  # a model folder has no data of its own
    if split is not None:
        refitted = folder.read_json("result.json")["selected"]["refit"]
        if part == "validation" and refitted:
            raise DataError(
                f"the run '{folder.path}' was refitted on its validation classes; use the test classes (--part test)"
            )
        chosen = ("test" if refitted else "validation") if part == "auto" else part
        held = split.test if chosen == "test" else split.validation
        return held, f"the run's own {held.num_classes} {chosen} classes"
    known = set(config["class_names"])
    new = np.array([name not in known for name in table.class_names])
    if new.sum() < 2:
        raise DataError(
            f"{table.source}: {int(new.sum())} of its {table.num_classes} classes are new to the model; a threshold is "
            "chosen on at least two classes that were not trained on"
        )
    held = table.of_classes(np.flatnonzero(new)) if not new.all() else table
    return replace(
        held, name=table.name
    ), f"{held.num_classes} classes of {table.name} that were not trained on"
