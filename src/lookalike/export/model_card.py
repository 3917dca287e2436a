"""The model card of a run: what it is, how well it works and how that was measured, data, licenses, how to load it."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from lookalike.evaluation.compare import RUN_FILE, SavedResult, interval_of, load_result
from lookalike.export.source import read_facts
from lookalike.models.embedder import Embedder

METRICS = ("recall_at_1", "map_at_r", "r_precision")


def model_card(
    run: Path,
    name: str,
    model: Embedder,
    *,
    agreement: str,
    views: int = 1,
    license_name: str | None = None,
) -> str:
    """Markdown with the hub's front matter.

    Args:
        run: the run directory; facts that it lacks are left out.
        name: OWNER/NAME on the hub.
        model: as uploaded.
        agreement: how well the uploaded folder agrees with the run on real images.
        views: how many views of an image the run's metrics were measured with.
        license_name: the hub's identifier of a license; None: that of the pretrained weights.
    """
    result, data = read_facts(run, "result.json"), read_facts(run, "data.json")
    environment = Environment(
        loader=PackageLoader("lookalike.export"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("model_card.md").render(
        name=name,
        config=model.config,
        dim=model.embedding_dim,
        license=license_name or hub_license(model),
        rows=_rows(run, result),
        views=views,
        selected=result.get("selected"),
        loss=result.get("loss"),
        mode=result.get("mode"),
        data=data,
        agreement=agreement,
    )


def _rows(run: Path, result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Metric, before training, after training with its confidence interval; in percent."""
    after, before = result.get("test") or {}, result.get("test_start") or {}
    if not after or not (run / f"{RUN_FILE}.json").is_file():
        return []
    queries = load_result(run)
    return [
        (key, f"{100 * before[key]:.1f}", _with_interval(queries, key)) for key in METRICS if key in after
    ]


def _with_interval(queries: SavedResult, metric: str) -> str:
    found = interval_of(queries, metric)
    return f"{100 * found.mean:.1f} ({100 * found.low:.1f} to {100 * found.high:.1f})"


def hub_license(model: Embedder) -> str:
    """The hub's identifier of the license of a model's pretrained weights, or "other"."""
    known = {"apache-2.0", "mit", "bsd-3-clause", "cc-by-nc-4.0", "cc-by-4.0"}
    stated = model.config.weights_license.lower()
    return stated if stated in known else "other"
