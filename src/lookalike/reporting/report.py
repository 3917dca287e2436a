"""A run as one self-contained page: numbers before and after, curves, and queries with what they found.

The page needs no network and no other file: images are small JPEGs inside it, curves are SVG. Right hits
have a solid green frame, wrong ones a dashed red one.
"""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from numpy.typing import NDArray

from lookalike.data.dataset import LabeledImages
from lookalike.data.image_io import thumbnail_base64
from lookalike.errors import DataError
from lookalike.ranking import nearest
from lookalike.reporting.hierarchy_page import tree_page
from lookalike.search.image_search import QueryHits
from lookalike.training.fit import FitResult
from lookalike.training.run_dir import RunDir
from lookalike.utils.io import escape_surrogates, write_atomically

METRICS = ("recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "map_at_r", "r_precision", "mrr")
QUERIES, HITS, SIDE = 8, 7, 112
_GRAY_DOT = "R0lGODlhAQABAIAAAMzMzAAAACH5BAAAAAAALAAAAAABAAEAAAICRAEAOw=="


def write_report(run: Path | str, done: FitResult) -> Path:
    """Writes report.html into the run directory and returns its path."""
    folder = RunDir(run)
    result, history = done.result, _history(folder)
    columns = {
        "validation, start": result["start"],
        "validation, chosen": result["validation"],
        "test, start": result["test_start"],
        "test, chosen": result["test"],
    }
    before, after = (100 * result[key]["recall_at_1"] for key in ("test_start", "test"))
    chosen, data = result["selected"], result["data"]
    page = _render(
        "report.html",
        title=f"{data['name']}: {result['loss']}, {result['mode']}",
        headline=f"Of the images of {data['classes']['test']} classes never seen in training, "
        f"{after:.1f} % have their own class nearest; before training it was {before:.1f} %.",
        facts=f"Chosen by {chosen['by']}: {chosen['what']}, epoch {chosen['epoch']} of "
        f"{chosen['epochs_trained']}. "
        f"{result['seconds']['total']:.0f} seconds in all.",
        header=["", *columns],
        rows=[[key, *(f"{100 * values[key]:.2f}" for values in columns.values())] for key in METRICS],
        notes=result["test"]["notes"],
        curves=_curves(history),
        grids=_grids(done),
        origin=_origin(folder, result),
    )
    if (folder.path / "tree.json").is_file():
        _write(folder.path / "tree.html", tree_page(folder.read_json("tree.json")))
    return _write(folder.path / "report.html", page)


def write_hits(file: Path, found: Sequence[QueryHits]) -> Path:
    """Writes a page with each query and its hits; queries that could not be read are left out."""
    queries = [
        {
            "image": _thumbnail(Path(hits.query)),
            "name": Path(hits.query).name + (" (unknown)" if hits.unknown else ""),
            "hits": [
                {
                    "image": _thumbnail(hit.file),
                    "name": (hit.label or hit.path) + (" (file is gone)" if hit.missing else ""),
                    "similarity": hit.similarity,
                    "kind": "wrong" if hit.same_class is False else "hit",
                }
                for hit in hits.hits
            ],
        }
        for hits in found
        if not hits.error
    ]
    return _write(file, _render("hits.html", title="Most similar images", queries=queries))


def _thumbnail(file: Path) -> str:
    """A small JPEG as base64 text; a gray dot for a file that is gone or broken."""
    try:
        return thumbnail_base64(file, SIDE)
    except DataError:
        return _GRAY_DOT


def _history(folder: RunDir) -> list[dict[str, Any]]:
    lines = (folder.path / "log.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["stage"] == "select"]


def _curves(history: list[dict[str, Any]]) -> str:
    """Validation metrics and the training loss over epochs, as SVG text."""
    figure = Figure(figsize=(9, 3), layout="constrained")
    FigureCanvasSVG(figure)
    left, right = figure.subplots(1, 2)
    epochs = [record["epoch"] for record in history]
    for key in ("recall_at_1", "map_at_r"):
        left.plot(
            epochs, [100 * record["validation"][key] for record in history], marker="o", ms=3, label=key
        )
    left.set(xlabel="epoch (0: untrained)", ylabel="percent", title="validation classes")
    left.legend(frameon=False)
    trained = [record for record in history if record["loss"] is not None]
    right.plot(
        [r["epoch"] for r in trained], [r["loss"] for r in trained], marker="o", ms=3, color="tab:gray"
    )
    right.set(xlabel="epoch", ylabel="loss", title="training")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.get_major_locator().set_params(integer=True)
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _grids(done: FitResult) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """Queries of the test classes drawn at random, and the ones that went most wrong."""
    table, roles = done.test, done.test.role is not None
    asking = table.queries()
    found = table.gallery()
    place = np.full(len(table), -1)
    place[found] = np.arange(len(found))
    hits, similarities = nearest(
        done.final[asking], done.final[found], HITS, self_index=None if roles else place[asking]
    )
    right = table.labels[found][hits] == table.labels[asking][:, None]
    generator = np.random.default_rng(done.result["seed"])
    drawn = np.sort(generator.choice(len(asking), size=min(QUERIES, len(asking)), replace=False))
    wrong = np.where(right.any(axis=1), -np.inf, similarities[:, 0])
    worst = [row for row in np.argsort(-wrong, kind="stable")[:QUERIES] if np.isfinite(wrong[row])]

    def rows(chosen: Any) -> list[dict[str, Any]]:
        return [_row(table, asking[i], found[hits[i]], similarities[i]) for i in chosen]

    grids = [
        (
            "Queries drawn at random",
            "The query, then its nearest images among the test classes.",
            rows(drawn),
        )
    ]
    if worst:
        text = f"No image of the right class among the {HITS} nearest, ordered by how sure the model was."
        grids.append(("Queries that went most wrong", text, rows(worst)))
    return grids


def _row(
    table: LabeledImages, query: int, hits: NDArray[np.int64], similarities: NDArray[np.float32]
) -> dict[str, Any]:
    def name(row: int) -> str:
        return table.class_names[int(table.labels[row])]

    return {
        "image": thumbnail_base64(table.file(int(query)), SIDE),
        "name": name(query),
        "hits": [
            {
                "image": thumbnail_base64(table.file(int(hit)), SIDE),
                "name": name(hit),
                "similarity": similarity,
                "kind": "right" if table.labels[hit] == table.labels[query] else "wrong",
            }
            for hit, similarity in zip(hits, similarities, strict=True)
        ],
    }


def _origin(folder: RunDir, result: dict[str, Any]) -> list[tuple[str, Any]]:
    data, model = result["data"], folder.experiment().model
    environment, experiment = folder.read_json("environment.json"), folder.experiment()
    return [
        ("data", f"{data['name']} ({data['digest'][:12]}), split {data['split_digest'][:12]}"),
        ("network", f"{model.backbone}, {experiment.data.image_size} px, {model.embedding_dim}-d"),
        (
            "loss",
            ", ".join([experiment.loss.name, *(f"{k}={v}" for k, v in experiment.loss.arguments.items())]),
        ),
        ("seed", result["seed"]),
        ("seconds", ", ".join(f"{phase} {value:.0f}" for phase, value in result["seconds"].items())),
        ("device", environment["gpu"] or f"{environment['device']}, {environment['threads']} threads"),
        ("made", environment["time"]),
        ("versions", ", ".join(f"{name} {version}" for name, version in environment["packages"].items())),
    ]


def _render(template: str, **values: Any) -> str:
    loader = jinja2.PackageLoader("lookalike.reporting", "templates")
    page: str = jinja2.Environment(loader=loader, autoescape=True).get_template(template).render(**values)
    return page


def _write(file: Path, page: str) -> Path:
    write_atomically(file, lambda temporary: temporary.write_text(escape_surrogates(page), encoding="utf-8"))
    return file
