"""Writes data sets as the tables that `tables.read_table` reads."""

from collections.abc import Sequence
from pathlib import Path

from lookalike.data.dataset import LabeledImages
from lookalike.data.readers.columns import BOX_COLUMNS, is_coarse
from lookalike.data.readers.paths import relative_paths
from lookalike.data.readers.write_frame import write_frame


def write_table(table: LabeledImages, path: Path) -> None:
    """Writes the data set as a table that `read_table` reads back; paths are relative where possible."""
    write_frame(_columns_of(table, path), path)


def write_removed(table: LabeledImages, path: Path, reasons: Sequence[str]) -> None:
    """Writes images that were left out, with the reason for each."""
    write_frame({"path": _columns_of(table, path)["path"], "reason": list(reasons)}, path)


def _columns_of(table: LabeledImages, path: Path) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {
        "path": relative_paths(table, path.parent),
        "label": [table.class_names[i] for i in table.labels.tolist()],
    }
    for level in table.coarse:
        name = level.name if is_coarse(level.name) else f"coarse_{level.name}"
        columns[name] = [level.class_names[i] for i in level.parents[table.labels].tolist()]
    if table.split is not None:
        columns["split"] = table.split.tolist()
    if table.role is not None:
        columns["is_query"] = [str(r != "gallery").lower() for r in table.role.tolist()]
        columns["is_gallery"] = [str(r != "query").lower() for r in table.role.tolist()]
    if table.boxes is not None:
        columns |= {name: [str(v) for v in table.boxes[:, i].tolist()] for i, name in enumerate(BOX_COLUMNS)}
    return columns
