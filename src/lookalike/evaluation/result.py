"""Result of an evaluation: values, counts of everything left out, and the per-query numbers behind them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.errors import FileError
from lookalike.evaluation.metrics import format_value, table_keys
from lookalike.evaluation.open_set import OpenSetResult
from lookalike.evaluation.ranks import Floats, Integers
from lookalike.utils.hashing import checksum
from lookalike.utils.io import os_errors, write_atomically, write_checked

ARRAYS = "arrays_crc32"
"""The key of the checksum of the .npz in the .json of a saved result: the two are one."""


@dataclass(frozen=True, repr=False)
class RetrievalResult:
    """Metrics of one set of embeddings, 0-1.

    Attributes:
        values: metric key -> mean over the scored queries (`recall_at_1`, `map_at_r`, ...; `nmi`, `ami` if
            clustering was on); NaN without any scored query.
        class_average: the same keys, mean over classes of the mean over each class's queries.
        counts: queries, gallery, classes, scored, queries without a match and their classes, ignored rows,
            ties, copies, clipped K.
        per_query: metric key -> (Q,) float64, NaN for queries without a match that were left out.
        labels: (Q,) int64, class of each query.
        rows: (Q,) int64, row of the embeddings that each query is.
        settings: similarity, treatment of queries without a match, ignored label, ks.
        clustering: engine, clusters, restarts, iterations and seed, or None.
        open_set: figures for queries without their class in the gallery, or None.
        notes: sentences that a reader of the values has to know.
        class_names: names by class number, or None.
    """

    values: dict[str, float]
    class_average: dict[str, float]
    counts: dict[str, Any]
    per_query: dict[str, np.ndarray]
    labels: np.ndarray
    rows: np.ndarray
    settings: dict[str, Any]
    class_names: tuple[str, ...] | None = None
    clustering: dict[str, Any] | None = None
    open_set: OpenSetResult | None = None
    notes: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        shown = ", ".join(f"{key} {format_value(key, self.values[key])}" for key in table_keys(self.values))
        return f"<RetrievalResult: {shown} (percent), {self.counts['queries']:,} queries>"

    def __getitem__(self, key: str) -> float:
        """`result['recall_at_1']`."""
        return self.values[key]

    def __getattr__(self, key: str) -> float:
        """`result.recall_at_1`."""
        values = self.__dict__.get("values", {})
        if key in values:
            return float(values[key])
        raise AttributeError(f"no metric '{key}' in this result (has: {', '.join(values)})")

    def per_class(self) -> dict[str, list[Any]]:
        """Columns `class`, `queries` (scored ones) and one per metric, classes ascending."""
        columns: dict[str, list[Any]] = {}
        for key, values in self.per_query.items():
            classes, means = mean_by_class(values, self.labels)
            if not columns:
                scored = self.labels[~np.isnan(values)]
                columns["class"] = [self.name_of(c) for c in classes]
                columns["queries"] = np.unique(scored, return_counts=True)[1].tolist()
            columns[key] = means.tolist()
        return columns

    def name_of(self, label: int) -> str | int:
        """Class name, or the label where there are no names."""
        if self.class_names is None or not 0 <= label < len(self.class_names):
            return int(label)
        return self.class_names[int(label)]

    def to_dict(self, *, per_class: bool = False) -> dict[str, Any]:
        """Plain values: metric keys, then `class_average`, `counts`, `settings`, `clustering`, `open_set`, `notes`."""
        out: dict[str, Any] = {**self.values, "class_average": dict(self.class_average)}
        out["counts"] = dict(self.counts)
        out["settings"] = dict(self.settings)
        if self.clustering is not None:
            out["clustering"] = dict(self.clustering)
        if self.open_set is not None:
            out["open_set"] = self.open_set.to_dict()
        out["notes"] = list(self.notes)
        if per_class:
            out["per_class"] = self.per_class()
        return out

    def summary(self) -> str:
        """A few lines for people: what was compared, what was left out, how similarity was computed."""
        counts = self.counts
        against = (
            f"a separate gallery of {counts['gallery']:,}"
            if counts["separate_gallery"]
            else f"{counts['gallery']:,} rows of the same set, each query's own row left out"
        )
        lines = [
            f"{counts['scored']:,} of {counts['queries']:,} queries of {counts['classes']:,} classes against "
            f"{against}; {self.settings['similarity']} similarity",
            *self.notes,
        ]
        if self.clustering is not None:
            how = self.clustering
            lines.append(
                f"clusters: k = {how['clusters']:,}, {how['engine']}, {how['restarts']} starts, seed {how['seed']}"
            )
        if self.open_set is not None:
            lines.append(f"open set: {self.open_set}")
        return "\n".join(lines)

    def save(self, file: str | Path) -> Path:
        """Writes FILE.json (`to_dict` with classes) and FILE.npz with the per-query arrays.

        `lookalike compare` reads the pair.

        Raises:
            FileError: the folder does not exist or cannot be written.
        """
        file, arrays_file = result_files(file)
        check_folder(file)
        arrays: dict[str, Any] = {"labels": self.labels, "rows": self.rows, **self.per_query}

        def write_pair(temporary: Path) -> None:
            with temporary.open("wb") as stream:
                np.savez_compressed(stream, **arrays)
            write_checked(file, {**self.to_dict(per_class=True), ARRAYS: checksum(temporary)})

        with os_errors("write", file, "free space or name another file"):
            write_atomically(arrays_file, write_pair)
        return file


def check_folder(file: str | Path) -> None:
    """Refuses a file whose folder does not exist, before anything is computed for it.

    Raises:
        FileError: with the folder.
    """
    folder = Path(file).parent
    if not folder.is_dir():
        raise FileError(f"cannot write {file}: no folder {folder}; give a file in a folder that exists")


def result_files(path: str | Path) -> tuple[Path, Path]:
    """FILE.json and FILE.npz of a saved result, of FILE or either of them; other suffixes belong to the name."""
    path = Path(path)
    name = path.name.removesuffix(path.suffix) if path.suffix in (".json", ".npz") else path.name
    return path.with_name(f"{name}.json"), path.with_name(f"{name}.npz")


def mean_by_class(values_Q: Floats, labels_Q: Integers) -> tuple[Integers, Floats]:
    """Classes that have a scored query, and the mean over each one's scored queries (NaN are not scored)."""
    scored = ~np.isnan(values_Q)
    classes, inverse = np.unique(labels_Q[scored], return_inverse=True)
    total = np.bincount(inverse, weights=values_Q[scored], minlength=len(classes))
    return classes, total / np.maximum(np.bincount(inverse, minlength=len(classes)), 1)
