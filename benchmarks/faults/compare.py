"""What commands leave behind, in a form that can be compared: everything but seconds, times and paths."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Traces = dict[str, Any]


def run_traces(run: Path) -> Traces:
    """Everything of a finished training run that has to be the same, without seconds."""
    from lookalike.training.tensor_tree import load_tree

    found: Traces = {"model": (run / "model.safetensors").read_bytes()}
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    found["result"] = {key: value for key, value in result.items() if key not in ("seconds", "crc32")}
    lines = map(json.loads, (run / "log.jsonl").read_text(encoding="utf-8").splitlines())
    found["log"] = [{key: value for key, value in line.items() if key != "seconds"} for line in lines]
    for file in sorted((run / "training_state").glob("*.json")):
        if file.stem in ("select", "refit"):
            tree = load_tree(file.with_suffix(""))
            for record in tree["history"]:
                del record["seconds"]
            found[file.stem] = _bytes(tree)
    return found


def _bytes(node: Any) -> Any:
    """The tree with the bytes of each tensor."""
    if hasattr(node, "numpy"):
        return node.contiguous().numpy().tobytes()
    if isinstance(node, dict):
        return {key: _bytes(value) for key, value in node.items()}
    return [_bytes(value) for value in node] if isinstance(node, list) else node


def file_traces(file: Path) -> Traces:
    """The content of one file."""
    return {file.name: file.read_bytes()}


def result_traces(file: Path) -> Traces:
    """A saved evaluation, its two files together."""
    from lookalike.evaluation.compare import load_result

    saved = load_result(file)
    return {**saved.summary, **{name: values.tobytes() for name, values in saved.per_query.items()}}


def study_traces(folder: Path) -> Traces:
    """The results of a study, in the order of their keys, without what they cost."""
    from lookalike.studies.results import load_results

    results = [_without_costs(vars(result)) for result in load_results(folder)]
    return {"results": sorted(map(repr, results))}


def _without_costs(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without_costs(value) for key, value in node.items() if "seconds" not in key}
    return [_without_costs(value) for value in node] if isinstance(node, list | tuple) else node


class Close:
    """Vectors that are equal when they differ by rounding: an index that is resumed embeds other batches."""

    def __init__(self, rows: NDArray[np.float32]) -> None:
        self.rows = rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Close) and np.allclose(self.rows, other.rows, atol=1e-5)

    __hash__ = None  # type: ignore[assignment]


def index_traces(folder: Path) -> Traces:
    """The files of an index in order, and their vectors."""
    from lookalike.search import ImageIndex

    with ImageIndex.open(folder) as index:
        found = {}
        for root in index.catalog.roots():
            files = index.catalog.files(root, sorted(index.catalog.paths(root)))
            found["files"] = list(files)
            found["vectors"] = Close(index.vectors([stored.item for stored in files.values()]))
    return found


def dataset_traces(folder: Path) -> Traces:
    """What a name for a data set stands for: every file and its content."""
    listed = json.loads((folder / "datasets.json").read_text(encoding="utf-8"))
    found = {}
    for name, entry in listed.items():
        root = Path(entry.pop("path"))
        files = {
            str(file.relative_to(root)): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(root.rglob("*"))
            if file.is_file()
        }
        found[name] = {**entry, "files": files}
    return found


def leftovers(folder: Path) -> list[str]:
    """Temporary files and folders that are left."""
    return [
        str(file.relative_to(folder))
        for suffix in (".tmp", ".partial")
        for file in folder.rglob(f"*{suffix}")
    ]


def differences(whole: Traces, other: Traces) -> list[str]:
    """The parts of two outcomes that differ."""
    return [part for part in sorted(whole.keys() | other.keys()) if whole.get(part) != other.get(part)]


def seconds_so_far(run: Path) -> dict[str, float]:
    """What a run directory has counted, by phase."""
    from lookalike.utils.io import read_checked

    file = run / "training_state" / "seconds.json"
    return read_checked(file) if file.exists() else {}
