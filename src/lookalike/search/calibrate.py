"""Choosing a model's threshold on labeled images, and storing it in a run and in indexes."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookalike.data.dataset import LabeledImages
from lookalike.embedding import embed
from lookalike.errors import ArgumentError, FileError
from lookalike.evaluation.open_set import OpenSetResult, evaluate_open_set
from lookalike.models.checkpoint import fingerprint, load_model
from lookalike.search.index import ImageIndex
from lookalike.search.thresholds import Threshold, choose_threshold, count_pairs
from lookalike.utils.device import pick_device
from lookalike.utils.io import write_json
from lookalike.utils.progress import Progress

THRESHOLD = "threshold.json"


@dataclass(frozen=True)
class Calibration:
    """A threshold, and open-set figures on the same images; None with fewer than four classes."""

    threshold: Threshold
    open_set: OpenSetResult | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return self.threshold.to_dict() | (
            {} if self.open_set is None else {"open_set": self.open_set.to_dict()}
        )


def calibrate(
    run: str | Path,
    table: LabeledImages,
    *,
    target: str = "precision",
    wanted: float = 0.95,
    device: str = "auto",
    progress: Progress | None = None,
) -> Calibration:
    """Chooses the threshold of the model in `run` on labeled images, and writes `run`/threshold.json.

    Args:
        table: images of classes that the model was not trained on.
        target, wanted: see `thresholds.choose_threshold`.

    Raises:
        FileError: no model in `run`.
        ArgumentError: too few images, or a target that cannot be reached.
    """
    embedder, _ = load_model(run)
    on = pick_device(device)
    matrix = embed(embedder.to(on), table, device=on, progress=progress).matrix
    threshold = choose_threshold(
        count_pairs(matrix, table.labels), target=target, wanted=wanted, images=len(table), data=table.name
    )
    try:
        figures = evaluate_open_set(matrix, table.labels, table.class_names)
    except ArgumentError:
        figures = None
    done = Calibration(threshold, figures)
    content = {"fingerprint": fingerprint(embedder.cpu()), **done.to_dict()}
    write_json(Path(run) / THRESHOLD, content)
    return done


def stored_threshold(run: str | Path, own: str) -> dict[str, Any] | None:
    """The threshold in a run, if it is of the model with fingerprint `own`; None if there is none."""
    file = Path(run) / THRESHOLD
    try:
        content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise FileError(f"'{file}' is damaged ({error}); run lookalike calibrate again") from error
    return content if content.pop("fingerprint", None) == own else None


def store_in_index(folder: str | Path, run: str | Path) -> None:
    """Copies a run's threshold into an index.

    Raises:
        FileError: no index, or another process is changing it.
        ArgumentError: the index holds vectors of another model, or the run has no threshold.
    """
    with ImageIndex.open(folder, writable=True) as index:
        threshold = stored_threshold(run, index.facts.fingerprint)
        if threshold is None:
            raise ArgumentError(
                f"index '{folder}' holds vectors of another model than '{run}'; build it with this one"
            )
        index.set_facts(threshold=threshold)
