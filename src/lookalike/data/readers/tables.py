"""A table of `path,label` as CSV, TSV, Parquet or JSON lines, with optional split, role, coarse columns."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from lookalike.data.dataset import CoarseLevel, Ints, LabeledImages, Words, number_labels
from lookalike.data.readers.files import check_present
from lookalike.data.readers.folder import PART_NAMES
from lookalike.errors import DataError
from lookalike.utils.validation import near_miss

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")
PATH_COLUMNS = ("path", "file_name")
YES = frozenset({"true", "1", "yes"})
NO = frozenset({"false", "0", "no", ""})


def is_table(path: Path) -> bool:
    """By the suffix."""
    return path.suffix.lower() in TABLE_SUFFIXES


def read_frame(path: Path) -> pl.DataFrame:
    """The table with every value as a string (null where empty).

    Raises:
        DataError: it cannot be parsed; the message quotes the parser.
    """
    suffix = path.suffix.lower()
    try:
        if suffix in (".csv", ".tsv"):
            separator = "\t" if suffix == ".tsv" else ","
            return pl.read_csv(path, infer_schema=False, separator=separator)
        frame = pl.read_parquet(path) if suffix == ".parquet" else pl.read_ndjson(path)
        whole = [c for c in frame.columns if frame[c].dtype.is_float() and _whole(frame[c])]
        return frame.with_columns(pl.col(whole).cast(pl.Int64)).with_columns(pl.all().cast(pl.String))
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        why = str(error).strip().splitlines()[0]
        raise DataError(
            f"{path}: cannot be read as a table ({why}); expected the columns path,label"
        ) from error


def _whole(column: pl.Series) -> bool:
    return bool((column.drop_nulls() % 1 == 0).all())


def read_table(path: Path, *, verify: bool = True, labeled: bool = True) -> LabeledImages:
    """The data set that a table describes.

    Columns: `path` (or `file_name`; relative to the table's folder, or absolute), `label` (strings or
    integers); optional `split` (train, validation, test), `is_query` and `is_gallery` (true/false), and
    coarser classes in `super_class`, `coarse` or any column whose name starts with `coarse_`. Other columns
    are left alone.

    Args:
        path: the table.
        verify: whether all files must be there.
        labeled: False accepts a table without labels; all images are then of one class, `.`.

    Raises:
        DataError: naming the table, the row and the remedy.
    """
    frame = read_frame(path)
    columns = frame.columns
    path_column = next((c for c in PATH_COLUMNS if c in columns), None)
    if path_column is None or (labeled and "label" not in columns):
        lacking = "path" if path_column is None else "label"
        raise DataError(
            f"{path}: no column '{lacking}'{near_miss(lacking, columns)} (it has: {', '.join(columns)}); "
            "expected path,label"
        )
    if frame.is_empty():
        raise DataError(f"{path}: the table has no rows; expected one row an image")
    root = path.parent
    paths = [_relative(p, root) for p in _filled(path, frame, path_column)]
    if len(set(paths)) != len(paths):
        seen: set[str] = set()
        twice = next(i for i, p in enumerate(paths) if p in seen or seen.add(p))  # type: ignore[func-returns-value]
        raise DataError(f"{path}: row {twice + 1} lists {paths[twice]} a second time; list each image once")
    raw = _filled(path, frame, "label") if "label" in columns else ["."] * len(paths)
    for row, label in enumerate(raw):
        if label.startswith("-") and label[1:].isdigit():
            raise DataError(
                f"{path}: row {row + 1} ({paths[row]}) has label {label}; negative labels are not classes: "
                "remove the row, or give the class a name"
            )
    labels, names = number_labels(raw)
    split = _split(path, frame) if "split" in columns else None
    table = LabeledImages(
        root,
        tuple(paths),
        labels,
        names,
        coarse=tuple(
            _coarse(path, c, _filled(path, frame, c), labels, names) for c in columns if is_coarse(c)
        ),
        split=split,
        role=_role(path, frame, split),
        name=path.stem,
    )
    if verify:
        check_present(
            path.name, root, paths, "correct the column 'path': it is relative to the table's folder"
        )
    return table


def is_coarse(column: str) -> bool:
    """Whether a column of this name groups the classes."""
    return column in ("super_class", "coarse") or column.startswith("coarse_")


def _filled(path: Path, frame: pl.DataFrame, column: str) -> list[str]:
    values = frame[column].to_list()
    for row, value in enumerate(values):
        if value is None or not value.strip():
            raise DataError(f"{path}: row {row + 1} has no '{column}'; fill it in or remove the row")
    return values


def _relative(entry: str, root: Path) -> str:
    given = Path(entry)
    if given.is_absolute() and given.is_relative_to(root.absolute()):
        given = given.relative_to(root.absolute())
    return given.as_posix()


def _split(path: Path, frame: pl.DataFrame) -> Words:
    words = []
    for row, value in enumerate(_filled(path, frame, "split")):
        part = PART_NAMES.get(value.strip().casefold())
        if part is None:
            raise DataError(f"{path}: row {row + 1} has split '{value}'; expected train, validation or test")
        words.append(part)
    return np.array(words, dtype=np.str_)


def _role(path: Path, frame: pl.DataFrame, split: Words | None) -> Words | None:
    if "is_query" not in frame.columns and "is_gallery" not in frame.columns:
        return None
    asks, found = _flags(path, frame, "is_query"), _flags(path, frame, "is_gallery")
    roles = []
    for row, (query, gallery) in enumerate(zip(asks, found, strict=True)):
        if not query and not gallery and (split is None or split[row] == "test"):
            raise DataError(f"{path}: row {row + 1} is neither query nor gallery; set one, or remove the row")
        roles.append("both" if query == gallery else "query" if query else "gallery")
    return np.array(roles, dtype=np.str_)


def _flags(path: Path, frame: pl.DataFrame, column: str) -> list[bool]:
    if column not in frame.columns:
        raise DataError(f"{path}: is_query and is_gallery go together; the column '{column}' is missing")
    flags = []
    for row, value in enumerate(frame[column].to_list()):
        word = (value or "").strip().casefold()
        if word not in YES and word not in NO:
            raise DataError(f"{path}: row {row + 1} has {column} '{value}'; expected true or false")
        flags.append(word in YES)
    return flags


def _coarse(path: Path, column: str, raw: list[str], labels: Ints, names: Sequence[str]) -> CoarseLevel:
    numbers, coarse_names = number_labels(raw)
    parents = np.full(len(names), -1, dtype=np.int64)
    for row, (label, parent) in enumerate(zip(labels.tolist(), numbers.tolist(), strict=True)):
        if parents[label] not in (-1, parent):
            raise DataError(
                f"{path}: row {row + 1} puts class '{names[label]}' into {column} '{raw[row]}', an earlier "
                f"row into '{coarse_names[parents[label]]}'; give each class one {column}"
            )
        parents[label] = parent
    return CoarseLevel(column, parents, coarse_names)


def write_table(table: LabeledImages, path: Path) -> None:
    """Writes the data set as a table that `read_table` reads back; paths are relative where possible."""
    root = path.parent.absolute()
    files = [(table.root.absolute() / p) for p in table.paths]
    columns: dict[str, list[str]] = {
        "path": [f.relative_to(root).as_posix() if f.is_relative_to(root) else f.as_posix() for f in files],
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
    frame = pl.DataFrame(columns)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".parquet":
        frame.write_parquet(path)
    elif path.suffix.lower() in (".jsonl", ".ndjson"):
        frame.write_ndjson(path)
    else:
        frame.write_csv(path, separator="\t" if path.suffix.lower() == ".tsv" else ",")
