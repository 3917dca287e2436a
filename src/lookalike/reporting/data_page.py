"""Writes a report of `data check` as a self-contained page with thumbnails."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lookalike.data.data_report import DataReport, Finding
from lookalike.data.dataset import LabeledImages
from lookalike.reporting.page import write_page
from lookalike.reporting.thumbnails import draw_row

CASES, PER_CASE, SIDE = 60, 8, 96
"""So many cases of each finding are shown, with so many images each."""


def write_data_page(file: Path, table: LabeledImages, report: DataReport) -> None:
    """Writes the page; findings whose cases are class names are listed without images."""
    row_of = {path: row for row, path in enumerate(table.paths)}
    sections = [
        {
            "kind": kind,
            "severity": finding.severity,
            "title": f"{len(finding.cases):,} {finding.title}",
            "cases": _cases(table, finding, row_of),
            "more": max(0, len(finding.cases) - CASES),
        }
        for kind, finding in report.findings.items()
    ]
    order = ("error", "warning", "info")
    write_page(
        file,
        "data.html",
        title=f"Data check of {report.name}",
        report=report,
        sections=sorted(sections, key=lambda section: order.index(section["severity"])),
    )


def _cases(table: LabeledImages, finding: Finding, row_of: dict[str, int]) -> list[dict[str, Any]]:
    details: Sequence[str] = finding.details or [
        " = ".join(case[:PER_CASE]) for case in finding.cases[:CASES]
    ]
    return [
        {
            "detail": detail,
            "more": max(0, len(case) - PER_CASE),
            "images": [_shown(table, name, row_of) for name in case[:PER_CASE]],
        }
        for case, detail in zip(finding.cases[:CASES], details, strict=False)
    ]


def _shown(table: LabeledImages, name: str, row_of: dict[str, int]) -> dict[str, str]:
    """A thumbnail with its path and label; names that are no image of the table have none."""
    row = row_of.get(name)
    if row is None:
        return {"name": name, "label": "", "image": ""}
    return {"name": name, "label": table.class_names[table.labels[row]], "image": draw_row(table, row, SIDE)}
