"""Columns of the user's table that become filters of the index: everything except path and label."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lookalike.data.dataset import LabeledImages
from lookalike.data.readers.frames import is_table, read_frame
from lookalike.search.where import Kind, Value

_OWN = ("path", "file_name", "label")


@dataclass(frozen=True)
class TableColumns:
    """Values of each row of a `LabeledImages`, by column name.

    Attributes:
        kinds: whether a column holds numbers or text.
        columns: name -> a value for each row; None where empty.
    """

    kinds: Mapping[str, Kind]
    columns: Mapping[str, list[Value | None]]

    def row(self, number: int) -> dict[str, Value | None]:
        """The values of one image."""
        return {name: values[number] for name, values in self.columns.items()}


def read_columns(source: str | Path, table: LabeledImages) -> TableColumns:
    """The columns of the table at `source`, in the order of `table`; where it is no table, only its split."""
    kinds: dict[str, Kind] = {}
    columns: dict[str, list[Value | None]] = {}
    if table.split is not None:
        kinds["split"], columns["split"] = "text", list(table.split.tolist())
    path = Path(source).expanduser()
    if path.is_file() and is_table(path):
        frame = read_frame(path)
        if len(frame) == len(table):
            for name, texts in frame.columns.items():
                if name.casefold() not in (*_OWN, *kinds):
                    kinds[name], columns[name] = _typed(texts)
    return TableColumns(kinds, columns)


def _typed(texts: Sequence[str | None]) -> tuple[Kind, list[Value | None]]:
    """Numbers where every value is one, else text."""
    values = [text.strip() if text and text.strip() else None for text in texts]
    numbers: list[Value | None] = []
    for value in values:
        try:
            number = None if value is None else float(value)
        except ValueError:
            return "text", list(values)
        if number is not None and not math.isfinite(number):
            return "text", list(values)
        numbers.append(int(number) if number is not None and number.is_integer() else number)
    return ("number", numbers) if any(n is not None for n in numbers) else ("text", list(values))
