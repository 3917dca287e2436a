"""Writes columns of text as CSV, TSV, Parquet or JSON lines, which `frames.read_frame` reads back."""

import json
from pathlib import Path

import polars as pl

from lookalike.data.readers.formulas import escape_formula
from lookalike.data.readers.frames import SUFFIXES
from lookalike.errors import DataError, FileError
from lookalike.utils.io import write_atomically
from lookalike.utils.parquet import write_parquet


def check_suffix(path: Path) -> None:
    """Refuses a name under which a table that is written would not be read."""
    if path.suffix.lower() not in SUFFIXES:
        raise FileError(f"{path}: tables are written as {', '.join(SUFFIXES)}; give it one of these endings")


def write_frame(columns: dict[str, list[str]], path: Path) -> None:
    """Writes columns of text, whole or not at all; `read_frame` reads them back. The suffix chooses the format.

    In CSV and TSV, values that a spreadsheet would take for formulas are escaped.

    Raises:
        DataError: names that are not UTF-8 into Parquet, which holds UTF-8 alone.
        FileError: the file cannot be written.
    """
    suffix = path.suffix.lower()
    check_suffix(path)
    write = _write_parquet if suffix == ".parquet" else _write_text
    try:
        write_atomically(path, lambda temporary: write(columns, temporary, suffix))
    except UnicodeEncodeError as error:
        raise DataError(
            f"{path}: some names are not UTF-8, which it cannot hold; write .csv or .jsonl"
        ) from error
    except OSError as error:
        raise FileError(
            f"{path}: cannot be written ({error.strerror or error}); free space or name another file"
        ) from error


def _write_parquet(columns: dict[str, list[str]], file: Path, _suffix: str) -> None:
    write_parquet(pl.DataFrame(columns), file)


def _write_text(columns: dict[str, list[str]], file: Path, suffix: str) -> None:
    rows = zip(*columns.values(), strict=True)
    with open(file, "w", encoding="utf-8", errors="surrogateescape", newline="") as out:
        if suffix in (".jsonl", ".ndjson"):
            out.writelines(
                json.dumps(dict(zip(columns, row, strict=True)), allow_nan=False) + "\n" for row in rows
            )
            return
        sign = "\t" if suffix == ".tsv" else ","
        out.write(sign.join(columns) + "\n")
        out.writelines(
            sign.join(_quoted(escape_formula(value), sign) for value in row) + "\n" for row in rows
        )


def _quoted(value: str, sign: str) -> str:
    if value != value.strip() or any(mark in value for mark in (sign, '"', "\n", "\r")):
        return '"' + value.replace('"', '""') + '"'
    return value
