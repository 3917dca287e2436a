"""Columns of the user's table that become filters of the index: everything except path and label."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lookalike.data.dataset import LabeledImages
from lookalike.data.readers.frames import is_table, read_frame
from lookalike.search.where import Kind, Value, parse_number

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
    """Numbers where every value is one (or NaN, which is empty then), else text.

    Codes such as 007, and whole numbers beyond 64 bits, are text: as numbers they would lose digits.
    """
    values: list[Value | None] = [text.strip() if text and text.strip() else None for text in texts]
    numbers: list[Value | None] = []
    for value in map(str, (value for value in values if value is not None)):
        number = parse_number(value)
        digits = value.lstrip("+-")
        code = digits.isdecimal() and ((digits[0] == "0" and len(digits) > 1) or isinstance(number, float))
        if value.casefold() == "nan":
            number = None
        elif number is None or code or not math.isfinite(number):
            return "text", values
        numbers.append(number)
    if all(number is None for number in numbers):
        return "text", values
    found = iter(numbers)
    return "number", [None if value is None else next(found) for value in values]
