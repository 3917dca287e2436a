"""Choosing a model's threshold on labeled images, and storing it in a run and in indexes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookalike.data.dataset import LabeledImages
from lookalike.embedding import embed
from lookalike.errors import ArgumentError
from lookalike.evaluation.open_set import OpenSetResult, evaluate_open_set
from lookalike.models.checkpoint import fingerprint, load_model
from lookalike.search.facts import IndexFacts, read_facts
from lookalike.search.index import ImageIndex
from lookalike.search.thresholds import Threshold, check_target, choose_threshold, count_pairs
from lookalike.utils.device import pick_device
from lookalike.utils.io import read_json, write_json
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
    indexes: Sequence[str | Path] = (),
    device: str = "auto",
    progress: Progress | None = None,
) -> Calibration:
    """Chooses the threshold of the model in `run` on labeled images, and writes `run`/threshold.json.

    Args:
        table: images of classes that the model was not trained on.
        target, wanted: see `thresholds.choose_threshold`.
        indexes: index folders that get a copy of the threshold.

    Raises:
        FileError: no model in `run`, no index, or another process is changing it.
        ArgumentError: a target that cannot be reached, too few images, or an index of another model.
    """
    check_target(target, wanted)
    embedder, _ = load_model(run)
    own = fingerprint(embedder)
    for folder in indexes:
        _check_model(folder, read_facts(Path(folder)), run, own)
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
    write_json(Path(run) / THRESHOLD, {"fingerprint": own, **done.to_dict()})
    for folder in indexes:
        with ImageIndex.open(folder, writable=True) as index:
            _check_model(folder, index.facts, run, own)
            index.set_facts(threshold=done.to_dict())
    return done


def stored_threshold(run: str | Path, own: str) -> dict[str, Any] | None:
    """The threshold in a run, if it is of the model with fingerprint `own`; None if there is none."""
    file = Path(run) / THRESHOLD
    if not file.is_file():
        return None
    content: dict[str, Any] = read_json(file)
    return content if content.pop("fingerprint", None) == own else None


def _check_model(folder: str | Path, facts: IndexFacts, run: str | Path, own: str) -> None:
    if facts.fingerprint != own:
        raise ArgumentError(
            f"index '{folder}' holds vectors of another model than '{run}'; build it with this one"
        )
