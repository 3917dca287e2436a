"""Parses CSV, TSV, Parquet and JSON lines into columns of text, whatever dialect wrote them."""

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from lookalike.data.readers.formulas import unescape_formula
from lookalike.data.readers.json_document import rows_of_document
from lookalike.data.readers.text_content import decode, read_content
from lookalike.errors import DataError
from lookalike.utils.parquet import polars_errors

SUFFIXES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")
SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")
DELIMITERS = ",;\t|"
MAX_COLUMNS = 10_000
AGAIN = "{} ({})"
"""The name of a column that is called like an earlier one."""
Column = list[str | None]


@dataclass(frozen=True)
class Frame:
    """A parsed table.

    Attributes:
        file: where it was read.
        columns: text of each column, None where empty; without the columns of `nested`.
        rows: where each row begins: of a text file the line, as an editor shows it; of Parquet and of a JSON document
            the row, counted from 1. Blank rows are left out.
        unit: what `rows` counts, line or row.
        nested: names of columns that hold lists, objects or bytes.
    """

    file: Path
    columns: dict[str, Column]
    rows: list[int]
    unit: str = "line"
    nested: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def place(self, at: int) -> str:
        """Where row `at` is in the file, such as `line 7`."""
        return f"{self.unit} {self.rows[at]}"

    def where(self, at: int) -> str:
        return f"{self.file}: {self.place(at)}"

    def find(self, *names: str) -> str | None:
        """The first of `names` that is a column.

        Raises:
            DataError: two columns are called so.
        """
        for name in names:
            fitting = [column for column in self.columns if header_key(column) == name]
            if len(fitting) > 1 or (fitting and AGAIN.format(fitting[0], 2) in self.columns):
                raise DataError(f"{self.file}: the column '{name}' appears twice in the header; remove one")
            if fitting:
                return fitting[0]
        return None


def header_key(name: str) -> str:
    """What headers that mean the same have in common: `File Name` is file_name."""
    return name.casefold().replace(" ", "_")


def is_table(path: Path) -> bool:
    """By the suffix."""
    return path.suffix.lower() in SUFFIXES and not path.is_dir()


def read_frame(path: Path, *, head: bool = False) -> Frame:
    """The table in `path`; surrounding spaces of headers do not count.

    Args:
        head: read the columns without their rows, and no more of the file than that takes.

    Raises:
        DataError: it cannot be parsed; the message names the row, or quotes the parser.
    """
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            frame = _read_parquet(path, head)
        elif suffix in (".jsonl", ".ndjson"):
            frame = _frame_of_objects(path, list(_objects(decode(read_content(path, head), head))))
        elif suffix == ".json":
            text = decode(path.read_bytes(), head=False)
            rows = rows_of_document(text)
            frame = (
                _frame_of_objects(path, list(_objects(text)))
                if rows is None
                else _frame_of_objects(path, list(enumerate(rows, start=1)), unit="row")
            )
        else:
            frame = _read_csv(
                path, decode(read_content(path, head), head), "\t" if suffix == ".tsv" else None, head
            )
        return Frame(path, {name: [] for name in frame.columns}, [], nested=frame.nested) if head else frame
    except DataError:
        raise
    except (pl.exceptions.PolarsError, OSError, ValueError, csv.Error, RecursionError) as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        if "field limit" in why:
            why = f"a value has more than {csv.field_size_limit():,} characters; remove its column"
        raise DataError(
            f"{path}: cannot be read as a table ({why}); expected the columns path,label"
        ) from error


def _refuse_many(names: Sequence[str]) -> None:
    if len(names) > MAX_COLUMNS:
        raise ValueError(
            f"it has {len(names):,} columns; keep those that are needed, at most {MAX_COLUMNS:,}"
        )


def _read_csv(path: Path, text: str, delimiter: str | None, head: bool) -> Frame:
    announced = re.match(r"\s*\"?sep=(.)\"?\r?\n", text)  # Excel's own first line
    above = 0
    if announced:
        delimiter, text, above = announced[1], text[announced.end() :], announced[0].count("\n")
    delimiter = delimiter or _delimiter(text)
    opening = text.lstrip()[:1]
    if opening in "<[{" and opening:
        raise ValueError(
            "it holds HTML or XML"
            if opening == "<"
            else "it holds JSON; call it .json, or .jsonl if it has an object per line"
        )
    lines = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=False
    )
    header = next((names for values in lines if any(names := [value.strip() for value in values])), None)
    if header is None:
        raise ValueError("it is empty")
    _refuse_many(header)
    header = _tell_apart(header)
    columns: dict[str, Column] = {name: [] for name in header if name}
    if head:
        return Frame(path, columns, [])
    rows: list[int] = []
    last = header[-1]
    end = lines.line_num
    for values in lines:
        line, end = above + end + 1, lines.line_num
        if not any(value.strip() for value in values):
            continue
        if any(value.strip() for value in values[len(header) :]):
            first = text.strip().splitlines()[0][:40]
            hint = "; remove what stands above the header" if len(header) == 1 else ""
            raise ValueError(
                f"line {line} has {len(values)} values, the header '{first}' has {len(header)}{hint}"
            )
        rows.append(line)
        for at, name in enumerate(header):
            if name:
                columns[name].append((unescape_formula(values[at]) or None) if at < len(values) else None)
        last = values[-1]
    if "\n" in last and not text.rstrip().endswith('"'):
        where = f"line {rows[-1]}" if rows else "the header"
        raise ValueError(f"a quotation mark in {where} is not closed")
    return Frame(path, columns, rows)


def _delimiter(text: str) -> str:
    """The one that makes most columns out of the header."""
    start = text[: csv.field_size_limit()].lstrip("\r\n")
    first = re.split(r"[\r\n]", start, maxsplit=1)[0]
    return max(DELIMITERS, key=lambda sign: (len(next(csv.reader([first], delimiter=sign), [])), sign == ","))


def _tell_apart(header: Sequence[str]) -> list[str]:
    """The header with a number after each name that stands in it before."""
    times: Counter[str] = Counter()
    names = []
    for name in header:
        times[name] += 1
        names.append(AGAIN.format(name, times[name]) if name and times[name] > 1 else name)
    return names


def _frame_of_objects(
    path: Path, objects: Sequence[tuple[int, dict[str, Any]]], *, unit: str = "line"
) -> Frame:
    names = list(dict.fromkeys(name for _, entry in objects for name in entry))
    _refuse_many(names)
    columns: dict[str, Column] = {}
    nested = []
    for name in names:
        values = [entry.get(name) for _, entry in objects]
        if any(isinstance(value, (list, dict)) for value in values):
            nested.append(name)
        else:
            columns[name.strip()] = [_word(value) for value in values]
    return Frame(path, columns, [row for row, _ in objects], unit, tuple(nested))


def _objects(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    if text.lstrip()[:1] == "[":
        raise ValueError("it holds one JSON array; call it .json, or save one object per line")
    for number, line in enumerate(text.splitlines() if "\n" not in text else text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise ValueError(f"line {number} is not JSON: {error}") from error
        if not isinstance(entry, dict):
            raise ValueError(f"line {number} is not a JSON object with keys such as path and label")
        yield number, entry


def _word(value: Any) -> str | None:
    """A scalar as text: 7.0 is `7`, NaN is nothing."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return None if math.isnan(value) else str(int(value)) if value.is_integer() else str(value)
    return str(value)


def _read_parquet(path: Path, head: bool) -> Frame:
    with polars_errors(path):
        schema = pl.read_parquet_schema(path)
        _refuse_many(list(schema))
        plain = [name for name, dtype in schema.items() if not dtype.is_nested()]
        frame = pl.read_parquet(path, columns=plain, n_rows=0 if head else None) if plain else pl.DataFrame()
    columns: dict[str, Column] = {}
    nested = [name for name in schema if name not in plain]
    for name in plain:
        series = frame[name]
        try:
            if series.dtype.is_float():
                columns[name.strip()] = [_word(value) for value in series.to_list()]
            else:
                columns[name.strip()] = [value or None for value in series.cast(pl.String).to_list()]
        except pl.exceptions.PolarsError:
            nested.append(name)  # bytes that are no text, durations, ...
    return Frame(path, columns, list(range(1, frame.height + 1)), "row", tuple(nested))
