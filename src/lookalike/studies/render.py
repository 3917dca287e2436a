"""The tables of a study as text: Markdown, JSON, and a self-contained HTML page."""

import base64
from pathlib import Path
from typing import Any

from lookalike.evaluation.intervals import Interval
from lookalike.reporting.page import render
from lookalike.studies.agreement import find_agreement
from lookalike.studies.figure import draw
from lookalike.studies.grids import to_csv, to_latex
from lookalike.studies.metric_keys import COSTS
from lookalike.studies.published import SOURCES
from lookalike.studies.results import table_folder
from lookalike.studies.study import Study
from lookalike.studies.table import Line, Table, build_tables, half_width
from lookalike.utils.io import to_json, write_text

Cells = list[list[str]]
PUBLISHED_APART = (
    "Published, with other data, settings or protocol: not to be compared with the numbers above"
)


def to_markdown(table: Table) -> str:
    """Title, table, and below it what a reader must know."""
    blocks = [f"### {table.title}", _grid(*ours_cells(table))]
    if cells := published_cells(table):
        blocks += [f"**{PUBLISHED_APART}**", _grid(*cells)]
    return "\n\n".join([*blocks, *notes(table)]) + "\n"


def to_html(table: Table, *, figure: str = "") -> str:
    """The same as a page; `figure` is a PNG in base64 to stand below the title."""
    return render(
        "study.html",
        title=table.title,
        figure=figure,
        ours=ours_cells(table),
        published=published_cells(table),
        apart=PUBLISHED_APART,
        notes=notes(table),
    )


def ours_cells(table: Table) -> tuple[list[str], Cells]:
    """Header and cells of what was measured, with published numbers next to it where they may be compared."""
    paired = any(line.comparable for line in table.lines)
    header = ["row", *table.study.columns]
    for metric in table.metrics:
        header += [f"{metric} published", "ours", "difference"] if paired else [metric]
    header += ["n", "selected on", "kept", "seconds per run", "note"]
    return header, [_cells(table, line, paired=paired) for line in table.lines]


def published_cells(table: Table) -> tuple[list[str], Cells] | None:
    """Header and cells of the published numbers of rows that cannot be compared."""
    lines = [line for line in table.lines if line.row.published and not line.comparable]
    metrics = [key for key in table.metrics if any(key in line.row.published for line in lines)]
    rows = [[line.row.name, *(str(line.row.published.get(key, "-")) for key in metrics)] for line in lines]
    return (["row", *metrics], rows) if rows and metrics else None


def notes(table: Table) -> list[str]:
    """Sentences below the table."""
    study = table.study
    tags = {number.source for line in table.lines for number in line.row.published.values()}
    said = [f"Source: {study.source}." + "".join(f" [{tag}] {SOURCES[tag]}." for tag in sorted(tags))]
    if study.note:
        said.append(f"Note: {study.note}.")
    if (order := find_agreement(table)) is not None:
        said.append(
            f"Order of rows by {order.metric}: {order.as_published} of {order.pairs} pairs as published; by 95 % "
            f"intervals of the difference by seed, {order.confirmed} pairs are confirmed and {order.refuted} refuted."
        )
    said.append(
        "Ours: percent, mean over n seeds ± half of its 95 % Student interval; costs as they are. "
        "Kept: `start` means that training never beat the untrained network."
    )
    return said


def _cells(table: Table, line: Line, *, paired: bool) -> list[str]:
    cells = [line.row.name]
    cells += [
        line.row.published[key].text if key in line.row.published else "-" for key in table.study.columns
    ]
    for metric in table.metrics:
        ours = _number(metric, line.ours.get(metric))
        printed = str(line.row.published.get(metric, "-")) if line.comparable else "-"
        difference = line.difference(metric)
        points = (
            "-" if difference is None else f"{difference:+.2f}" if metric in COSTS else f"{difference:+.1f}"
        )
        cells += [printed, ours, points] if paired else [ours]
    counts = max((interval.n for interval in line.ours.values()), default=0)
    apart = "" if line.comparable else "not comparable"
    return [
        *cells,
        str(counts),
        line.selected_on or "-",
        line.kept or "-",
        "-" if line.seconds is None else f"{line.seconds:.0f}",
        "; ".join(part for part in (line.status, apart if paired else "", line.row.note) if part),
    ]


def _number(metric: str, interval: Interval | None) -> str:
    if interval is None:
        return "-"
    digits = 2 if metric in COSTS else 1
    spread = "" if (half := half_width(interval)) is None else f" ± {half:.{digits}f}"
    return f"{interval.mean:.{digits}f}{spread}"


def _grid(header: list[str], rows: Cells) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def as_tree(table: Table) -> dict[str, Any]:
    """The table as plain values for JSON; published numbers of a row that cannot be compared stand apart."""
    order = find_agreement(table)
    return {
        "study": table.study.id,
        "title": table.title,
        "conditions": table.conditions,
        "comparable": table.comparable,
        "metrics": list(table.metrics),
        "rows": [_line_tree(table, line) for line in table.lines],
        "published_elsewhere": {
            line.row.name: _published_tree(line)
            for line in table.lines
            if line.row.published and not line.comparable
        },
        "order": None if order is None else vars(order),
    }


def _line_tree(table: Table, line: Line) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "row": line.row.name,
        "dataset": line.dataset or None,
        "comparable": line.comparable,
        "protocol": line.protocol or None,
        "ours": {
            key: {"mean": interval.mean, "half_width": half_width(interval), "n": interval.n}
            for key, interval in line.ours.items()
        },
        "selected_on": line.selected_on or None,
        "kept": line.kept or None,
        "seconds": line.seconds,
        "status": line.status or None,
        "note": line.row.note or None,
    }
    if line.comparable:
        tree["published"] = _published_tree(line)
        tree["difference"] = {m: d for m in table.metrics if (d := line.difference(m)) is not None}
    return tree


def _published_tree(line: Line) -> dict[str, Any]:
    return {key: number.to_dict() for key, number in line.row.published.items()}


def write_tables(study: Study, out: Path) -> list[Table]:
    """Brings the tables of a study in a folder of runs up to date, as files, and returns them."""
    tables = build_tables(study, out)
    for table in tables:
        _write(table, table_folder(out, study.id, table.conditions))
    return tables


def _write(table: Table, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    figure = ""
    if table.study.figure is not None:
        figure = base64.b64encode(draw(table, folder / "figure.png").read_bytes()).decode()
    texts = {
        "table.json": to_json(as_tree(table), indent=1) + "\n",
        "table.md": to_markdown(table),
        "table.html": to_html(table, figure=figure),
        "table.csv": to_csv(*ours_cells(table)),
        "table.tex": to_latex(*ours_cells(table)),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
