"""A study in words: what `lookalike study show` prints, for people and as JSON."""

from typing import Any

from lookalike.studies.study import DATASETS, SOURCES, Study


def describe(study: Study) -> dict[str, Any]:
    """The study with every row's complete experiment, as plain values."""
    return {
        "study": study.id,
        "title": study.title,
        "source": study.source,
        "note": study.note,
        "metrics": list(study.metrics),
        "source_tags": SOURCES,
        "rows": [
            {
                "row": row.name,
                "dataset": row.dataset or None,
                "system": row.recipe.system if row.recipe else None,
                "recipe_source": row.recipe.source if row.recipe else None,
                "settings": list(row.settings),
                "experiment": row.experiment().model_dump(mode="json") if row.recipe else None,
                "published": {
                    key: {"percent": number.value, "spread": number.spread, "source": number.source}
                    for key, number in row.published.items()
                },
                "x": row.x,
                "series": row.series or None,
                "note": row.note or None,
            }
            for row in study.rows
        ],
    }


def described_rows(study: Study) -> tuple[list[str], list[list[str]]]:
    """Header and lines of the study's table of published numbers."""
    metrics = [key for key in study.metrics if any(key in row.published for row in study.rows)]
    lines = []
    for row in study.rows:
        numbers = [str(row.published[key]) if key in row.published else "-" for key in metrics]
        what = " ".join(row.settings) or ("not run here, cited" if row.recipe is None else "")
        lines.append(
            [row.name, DATASETS.get(row.dataset, "-"), *numbers, "; ".join(filter(None, (what, row.note)))]
        )
    return ["row", "data", *metrics, "what differs"], lines
