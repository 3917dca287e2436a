"""Writes what a study has given so far: table.md, table.html, table.json, and figure.png for a figure."""

import base64
import json
from pathlib import Path

from lookalike.files import write_atomically
from lookalike.studies.figure import draw
from lookalike.studies.layout import to_html, to_markdown
from lookalike.studies.study import Study
from lookalike.studies.table import Table, as_tree, build_table


def write_table(study: Study, folder: Path, out: Path) -> Table:
    """Brings the files in a variant's folder up to date with what has been run.

    Args:
        folder: of the variant, with its plan.
        out: the folder that holds all runs.

    Raises:
        FileError: no plan in `folder`.
    """
    table = build_table(study, folder, out)
    picture = ""
    if study.figure is not None:
        image = base64.b64encode(draw(table, folder / "figure.png").read_bytes()).decode()
        picture = f'<img alt="the figure" src="data:image/png;base64,{image}">'
    tree = json.dumps(as_tree(table), indent=1, ensure_ascii=False) + "\n"
    write_atomically(folder / "table.json", lambda file: file.write_text(tree, encoding="utf-8"))
    write_atomically(folder / "table.md", lambda file: file.write_text(to_markdown(table), encoding="utf-8"))
    page = to_html(table, picture=picture)
    write_atomically(folder / "table.html", lambda file: file.write_text(page, encoding="utf-8"))
    return table
