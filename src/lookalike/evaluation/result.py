"""What an evaluation says: values, counts of everything left out, and the per-query numbers behind them."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.errors import FileError
from lookalike.evaluation.metrics import mean_by_class


@dataclass(frozen=True)
class RetrievalResult:
    """Metrics of one set of embeddings, 0-1.

    Attributes:
        values: metric key -> mean over the scored queries (`recall_at_1`, `map_at_r`, ...; `nmi`, `ami` when
            asked).
        class_average: the same keys, mean over classes of the mean over each class's queries.
        counts: queries, gallery, classes, scored, lone queries and their classes, ties, copies, clipped k.
        per_query: metric key -> (Q,) float64, NaN where a query has nothing to find and was left out.
        labels: (Q,) int64, class of each query.
        rows: (Q,) int64, row of the embeddings that asked.
        settings: similarity, order of ties, treatment of lone queries, and so on.
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
    notes: tuple[str, ...] = field(default=())

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
        """Columns `class`, `queries` (scored ones) and one for each metric, classes ascending."""
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
        """Plain values for JSON: metric keys on top, then `class_average`, `counts`, `settings`, `notes`."""
        out: dict[str, Any] = {**self.values, "class_average": dict(self.class_average)}
        out["counts"] = dict(self.counts)
        out["settings"] = dict(self.settings)
        if self.clustering is not None:
            out["clustering"] = dict(self.clustering)
        out["notes"] = list(self.notes)
        if per_class:
            out["per_class"] = self.per_class()
        return out

    def summary(self) -> str:
        """A few lines for people: how many asked, what was left out, how ties and similarity were taken."""
        asked = (
            f"{self.counts['scored']:,} of {self.counts['queries']:,} queries of {self.counts['classes']:,} "
            f"classes, gallery of {self.counts['gallery']:,}; {self.settings['similarity']} similarity, "
            f"ties by {self.settings['ties']}"
        )
        lines = [asked, *self.notes]
        if self.clustering is not None:
            how = self.clustering
            lines.append(
                f"clusters: nmi {100 * self.values['nmi']:.2f}, ami {100 * self.values['ami']:.2f} (k = "
                f"{how['clusters']:,}, {how['engine']}, {how['restarts']} starts, seed {how['seed']})"
            )
        return "\n".join(lines)

    def save(self, file: str | Path) -> Path:
        """Writes FILE.json (`to_dict` with classes) and, beside it, FILE.npz with the per-query arrays.

        `lookalike compare` reads the pair back.

        Raises:
            FileError: the folder does not exist or cannot be written.
        """
        file = Path(file).with_suffix(".json")
        try:
            file.write_text(json.dumps(self.to_dict(per_class=True), indent=1) + "\n", encoding="utf-8")
            np.savez_compressed(
                file.with_suffix(".npz"),
                labels=self.labels,
                rows=self.rows,
                **self.per_query,  # type: ignore[arg-type]
            )
        except OSError as error:
            raise FileError(f"cannot write {file}: {error}; give a file in a folder that exists") from error
        return file
