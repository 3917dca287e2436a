"""Writes a split as the CSV of Open Metric Learning (OML); `read_table` reads that format as it is."""

from pathlib import Path

from lookalike.data.readers.columns import BOX_COLUMNS
from lookalike.data.readers.paths import relative_paths
from lookalike.data.readers.write_frame import write_frame
from lookalike.data.splits import Split


def write_oml(file: Path, split: Split) -> None:
    """Writes all but the test classes as `train` and the test classes as `validation`: OML has no third part.

    Columns: `label` (numbers), `path`, `split`, `is_query`, `is_gallery`, `class_name`, and boxes if there are any.
    """
    columns: dict[str, list[str]] = {}
    for part, table, first in (
        ("train", split.trainval, 0),
        ("validation", split.test, split.trainval.num_classes),
    ):
        roles = ["both"] * len(table) if table.role is None else table.role.tolist()
        tested = part == "validation"
        rows = {
            "label": [str(first + label) for label in table.labels.tolist()],
            "path": relative_paths(table, file.parent),
            "split": [part] * len(table),
            "is_query": [str(role != "gallery") if tested else "" for role in roles],
            "is_gallery": [str(role != "query") if tested else "" for role in roles],
            "class_name": [table.class_names[label] for label in table.labels.tolist()],
        }
        if table.boxes is not None:
            rows |= {
                name: [str(v) for v in table.boxes[:, at].tolist()] for at, name in enumerate(BOX_COLUMNS)
            }
        for name, values in rows.items():
            columns.setdefault(name, []).extend(values)
    write_frame(columns, file)
