"""A study and its results as text: terminal, Markdown, JSON, and a self-contained HTML page."""

import base64
import json
from html import escape
from pathlib import Path
from typing import Any

from lookalike.evaluation.intervals import Interval
from lookalike.studies.figure import draw
from lookalike.studies.study import DATASETS, SOURCES, Study
from lookalike.studies.table import COSTS, Line, Table, as_tree, build_table, half_width
from lookalike.utils.io import write_atomically

Cells = list[list[str]]


def to_markdown(table: Table) -> str:
    """Title, table, and below it what a reader must know."""
    blocks = [f"### {table.title}", _grid_markdown(*ours_cells(table))]
    if not table.comparable and (cells := published_cells(table)):
        blocks += [f"**{PUBLISHED_APART}**", _grid_markdown(*cells)]
    return "\n\n".join([*blocks, *notes(table)]) + "\n"


def to_html(table: Table, *, figure: str = "") -> str:
    """The same as a page; `figure` is an <img> element to stand below the title."""
    body = [f"<h1>{escape(table.title)}</h1>", figure, _grid_html(*ours_cells(table))]
    if not table.comparable and (cells := published_cells(table)):
        body += [f"<h2>{escape(PUBLISHED_APART)}</h2>", _grid_html(*cells)]
    body += [f"<p>{escape(note)}</p>" for note in notes(table)]
    style = "body{font:15px sans-serif;margin:2em}td,th{padding:.2em .8em;text-align:left}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(table.study.id)}</title>'
        f"<style>{style}</style><body>{''.join(body)}</body></html>\n"
    )


PUBLISHED_APART = "Published, on other data or with other settings: not to be compared with the numbers above"


def ours_cells(table: Table) -> tuple[list[str], Cells]:
    """Header and cells of what was measured, with published numbers beside it where they may be compared."""
    header = ["row"]
    for metric in table.metrics:
        header += [f"{metric} published", "ours", "difference"] if table.comparable else [metric]
    header += ["n", "selected on", "kept", "seconds a run", "note"]
    return header, [_cells(table, line) for line in table.lines]


def published_cells(table: Table) -> tuple[list[str], Cells] | None:
    """Header and cells of the published numbers alone."""
    lines = [line for line in table.lines if line.row.published]
    metrics = [key for key in table.metrics if any(key in line.row.published for line in lines)]
    rows = [[line.row.name, *(str(line.row.published.get(key, "-")) for key in metrics)] for line in lines]
    return (["row", *metrics], rows) if rows else None


def notes(table: Table) -> list[str]:
    """Sentences below the table."""
    study = table.study
    tags = {number.source for line in table.lines for number in line.row.published.values()}
    said = [f"Source: {study.source}." + "".join(f" [{tag}] {SOURCES[tag]}." for tag in sorted(tags))]
    if study.note:
        said.append(f"Note: {study.note}.")
    if (order := table.agreement()) is not None:
        said.append(f"Order of rows by {order[0]}: {order[1]} of {order[2]} pairs as published.")
    said.append(
        "Ours: percent, mean over n seeds ± half of its 95 % Student interval; costs as they are. "
        "Kept: `start` means that training never beat the untrained network."
    )
    return said


def _cells(table: Table, line: Line) -> list[str]:
    cells = [line.row.name]
    for metric in table.metrics:
        ours = _number(metric, line.ours.get(metric))
        if table.comparable:
            difference = line.difference(metric)
            cells += [
                str(line.row.published.get(metric, "-")),
                ours,
                "-" if difference is None else f"{difference:+.1f}",
            ]
        else:
            cells.append(ours)
    counts = max((interval.n for interval in line.ours.values()), default=0)
    return [
        *cells,
        f"{counts} of {line.planned}" if counts < line.planned else str(counts),
        line.selected_on or "-",
        line.kept or "-",
        "-" if line.seconds is None else f"{line.seconds:.0f}",
        "; ".join(part for part in (line.status, line.row.note) if part),
    ]


def _number(metric: str, interval: Interval | None) -> str:
    if interval is None:
        return "-"
    digits = 2 if metric in COSTS else 1
    spread = "" if (half := half_width(interval)) is None else f" ± {half:.{digits}f}"
    return f"{interval.mean:.{digits}f}{spread}"


def _grid_markdown(header: list[str], rows: Cells) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _grid_html(header: list[str], rows: Cells) -> str:
    def line(cells: list[str], kind: str) -> str:
        return "<tr>" + "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in cells) + "</tr>"

    return f"<table>{line(header, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"


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


def write_table(study: Study, folder: Path, out: Path) -> Table:
    """Brings the files in a variant's folder up to date with what has been run.

    Args:
        folder: of the variant, with its plan.
        out: the folder that holds all runs.

    Raises:
        FileError: no plan in `folder`.
    """
    table = build_table(study, folder, out)
    figure = ""
    if study.figure is not None:
        image = base64.b64encode(draw(table, folder / "figure.png").read_bytes()).decode()
        figure = f'<img alt="the figure" src="data:image/png;base64,{image}">'
    tree = json.dumps(as_tree(table), indent=1, ensure_ascii=False) + "\n"
    write_atomically(folder / "table.json", lambda file: file.write_text(tree, encoding="utf-8"))
    write_atomically(folder / "table.md", lambda file: file.write_text(to_markdown(table), encoding="utf-8"))
    page = to_html(table, figure=figure)
    write_atomically(folder / "table.html", lambda file: file.write_text(page, encoding="utf-8"))
    return table
