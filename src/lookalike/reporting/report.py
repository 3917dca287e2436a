"""Report of a run: one self-contained page with its numbers, curves, map, mistakes and examples."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.evaluation import format_value, interval_of, load_result, table_keys
from lookalike.losses.class_tree import leaves
from lookalike.reporting.embedding_map import draw_map
from lookalike.reporting.page import write_page
from lookalike.reporting.plots import plot_loss, plot_similarities, plot_validation
from lookalike.reporting.retrieved import Confusion, Retrieved, find_confusions, pair_similarities, retrieve
from lookalike.reporting.similarities import FILE, histogram
from lookalike.reporting.thumbnails import draw_row
from lookalike.training.fit import FitResult
from lookalike.training.run_dir import RunDir

EXAMPLES, CONFUSIONS, HITS, SIDE = 8, 12, 7, 112


def write_report(run: Path | str, done: FitResult) -> Path:
    """Writes report.html and similarities.json into the run directory and returns the report's path.

    Args:
        run: the run directory.
        done: the finished run, with the embeddings of its test images.
    """
    folder = RunDir(run)
    result, seed = done.result, done.result["seed"]
    found = retrieve(done.test, done.final, k=HITS, seed=seed)
    before = retrieve(done.test, done.start, k=1, seed=seed)
    history = _history(folder)
    similarities = histogram(*pair_similarities(found, seed=seed))
    folder.write_json(FILE, similarities)
    data, selected = result["data"], result["selected"]
    headline, *advice = result["in_words"]
    tree = folder.read_json("tree.json") if (folder.path / "tree.json").is_file() else None
    return write_page(
        folder.path / "report.html",
        "report.html",
        title=f"{data['name']}: {result['loss']}, {result['mode']}",
        headline=headline,
        advice=advice,
        facts=f"Selected by {selected['by']}: {selected['what']}, epoch {selected['epoch']} of "
        f"{selected['epochs_trained']}. {result['seconds']['total']:.0f} seconds in total.",
        table=_table(folder, result),
        notes=result["test"]["notes"],
        test_used_to_select=selected["test_used_to_select"],
        validation_curve=plot_validation(history, ("recall_at_1", "map_at_r"), selected["epoch"]),
        loss_curve=plot_loss(history) if any(line["loss"] is not None for line in history) else None,
        similarities_before=plot_similarities(histogram(*pair_similarities(before, seed=seed))),
        similarities=plot_similarities(similarities),
        map=draw_map(done.test, found.unit, seed=seed),
        confusions=[_confusion(found, one) for one in find_confusions(found, most=CONFUSIONS)],
        hardest=_hardest(found),
        drawn=_drawn(found, seed),
        sampled=len(found.queries) if len(found.queries) < len(done.test.queries()) else None,
        tree=tree,
        tree_classes=leaves(tree) if tree else 0,
        origin=_origin(folder, result),
    )


def _history(folder: RunDir) -> list[dict[str, Any]]:
    """Epochs of the selection, the state before training first."""
    return folder.read_log("select")


def _table(folder: RunDir, result: dict[str, Any]) -> dict[str, Any]:
    """Header and rows of the table of metrics, the test metrics with their interval over classes."""
    columns = {
        "validation, before": result["start"],
        "validation, after": result["validation"],
        "test, before": result["test_start"],
        "test, after": result["test"],
    }
    saved = load_result(folder.path)
    rows = []
    for key in table_keys(result["test"]):
        rows.append([key, *(format_value(key, values.get(key)) for values in columns.values())])
        known = key in saved.per_query and not np.isnan(saved.per_query[key]).all()
        interval = interval_of(saved, key) if known else None
        ends = (None, None) if interval is None else (interval.low, interval.high)
        low, high = (format_value(key, value) for value in ends)
        rows[-1].append("-" if low == "-" else f"{low} to {high}")
    return {"header": ["percent", *columns, "test, after: 95 % interval"], "rows": rows}


def _confusion(found: Retrieved, one: Confusion) -> dict[str, Any]:
    """Both classes, how often each is mistaken for the other, and the most similar mistake."""
    names = found.table.class_names
    query, hit = found.queries[one.example], found.hits[one.example, 0]
    return {
        "first": names[one.first],
        "second": names[one.second],
        "mistaken": one.mistaken,
        "queries": one.queries,
        "similarity": f"{found.similarities[one.example, 0]:.3f}",
        "images": [
            {"name": found.class_name(row), "image": draw_row(found.table, int(row), SIDE)}
            for row in (query, hit)
        ],
    }


def _hardest(found: Retrieved) -> list[dict[str, Any]]:
    """Queries without an image of their class among the hits, most similar wrong hit first."""
    wrong = np.where(found.correct.any(axis=1), -np.inf, found.similarities[:, 0])
    order = np.argsort(-wrong, kind="stable")
    rows = []
    for at in order[np.isfinite(wrong[order])]:
        positive = found.nearest_positive(int(found.queries[at]))
        if positive is not None:
            row, similarity, rank = positive
            missed = _image(found, row, f"{similarity:.3f}, rank {rank:,}", "missed")
            rows.append(_query(found, int(at), HITS - 1) | {"missed": missed})
        if len(rows) == EXAMPLES:
            break
    return rows


def _drawn(found: Retrieved, seed: int) -> list[dict[str, Any]]:
    """Queries drawn at random."""
    count = min(EXAMPLES, len(found.queries))
    drawn = np.random.default_rng(seed).choice(len(found.queries), size=count, replace=False)
    return [_query(found, int(at), HITS) for at in np.sort(drawn)]


def _query(found: Retrieved, at: int, hits: int) -> dict[str, Any]:
    """A query with its first hits, for the template hits_row.html."""
    query, correct = int(found.queries[at]), found.correct[at]
    return _image(found, query, "query", "query") | {
        "hits": [
            _image(found, int(row), f"{similarity:.3f}", "right" if right else "wrong")
            for row, similarity, right in zip(
                found.hits[at, :hits], found.similarities[at, :hits], correct[:hits], strict=True
            )
        ]
    }


def _image(found: Retrieved, row: int, note: str, kind: str) -> dict[str, Any]:
    return {
        "image": draw_row(found.table, row, SIDE),
        "name": found.class_name(row),
        "note": note,
        "kind": kind,
    }


def _origin(folder: RunDir, result: dict[str, Any]) -> Sequence[tuple[str, Any]]:
    data, experiment = result["data"], folder.experiment()
    environment = folder.read_json("environment.json")
    loss = experiment.loss
    return [
        ("data", f"{data['name']} ({data['digest'][:12]}), split {data['split_digest'][:12]}"),
        (
            "network",
            f"{experiment.model.backbone}, {experiment.data.image_size} px, "
            f"{experiment.model.embedding_dim} dimensions",
        ),
        ("loss", ", ".join([loss.name, *(f"{key}={value}" for key, value in loss.arguments.items())])),
        ("seed", result["seed"]),
        ("seconds", ", ".join(f"{phase} {value:.0f}" for phase, value in result["seconds"].items())),
        ("device", environment["gpu"] or f"{environment['device']}, {environment['threads']} threads"),
        ("date", environment["time"]),
        ("versions", ", ".join(f"{name} {version}" for name, version in environment["packages"].items())),
    ]
