"""Evaluation of embeddings in files: .npy (memory-mapped), .npz, Parquet.

    .npy      embeddings (N, D) in one file, labels (N,) in another; read block by block
    .npz      arrays `embeddings` and `labels` (or the only array there is)
    .parquet  columns `embedding` (a list of numbers) and `label`, or one numeric column per dimension

Labels may be whole numbers or words.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.errors import DataError, FileError, LookalikeError, first_line
from lookalike.evaluation.evaluator import evaluate
from lookalike.evaluation.result import RetrievalResult
from lookalike.utils.io import ARRAY_ERRORS
from lookalike.utils.parquet import polars_errors
from lookalike.utils.what_is import found_instead

_EMBEDDING_NAMES = ("embeddings", "embedding", "vectors", "vector", "features")
_LABEL_NAMES = ("labels", "label", "class", "y")


def evaluate_files(
    embeddings: str | Path,
    labels: str | Path | None = None,
    gallery_embeddings: str | Path | None = None,
    gallery_labels: str | Path | None = None,
    *,
    ignore_labels: Collection[str] = (),
    **options: Any,
) -> RetrievalResult:
    """Evaluates embeddings in files; `options` are those of `evaluate`.

    Args:
        embeddings: file of the queries.
        labels: file of their labels; None if `embeddings` holds them too.
        gallery_embeddings, gallery_labels: files of a separate gallery; None: each query against all others.
        ignore_labels: labels, as they are written in the file, of rows to leave out, such as "-1".

    Raises:
        FileError: a file that is absent or of an unknown kind.
        DataError: no embeddings or labels in it.
    """
    matrix, classes = read_embeddings(embeddings, labels)
    if gallery_embeddings is None:
        parts, other = [classes], {}
    else:
        gallery, gallery_classes = read_embeddings(gallery_embeddings, gallery_labels)
        parts, other = [classes, gallery_classes], {"gallery_embeddings": gallery}
    coded, names = _code(parts)
    if len(coded) == 2:
        other["gallery_labels"] = coded[1]
    return evaluate(
        matrix, coded[0], class_names=names, ignore_labels=_numbers(ignore_labels, names), **other, **options
    )


def _numbers(labels: Collection[str], names: list[str] | None) -> list[int]:
    """Labels as they are written in a file, as class numbers."""
    for label in labels:
        known = label in names if names is not None else label.lstrip("-").isdecimal()
        if not known:
            raise DataError(f"no row has the label '{label}' that is to be ignored")
    return [int(label) if names is None else names.index(label) for label in labels]


def read_embeddings(embeddings: str | Path, labels: str | Path | None = None) -> tuple[Any, np.ndarray]:
    """The matrix (memory-mapped for .npy) and its labels, numbers or words."""
    file = Path(embeddings)
    matrix = _pick(file, _EMBEDDING_NAMES, dimensions=2)
    source = file if labels is None else Path(labels)
    if labels is None and file.suffix == ".npy":
        raise DataError(f"{file} holds no labels; give their file with labels (command line: --labels)")
    classes = np.asarray(_pick(source, _LABEL_NAMES, dimensions=1))
    if classes.dtype == object:
        raise DataError(
            f"labels in {source} are neither whole numbers nor words; give class numbers or class names"
        )
    if np.issubdtype(classes.dtype, np.floating):
        classes = _whole_numbers(classes, source)
    if len(classes) != len(matrix):
        raise DataError(
            f"{source} has {len(classes)} labels, {file} {len(matrix)} embeddings; give one label per embedding"
        )
    return matrix, classes


def _whole_numbers(labels: np.ndarray, source: Path) -> np.ndarray:
    """Floating labels as int64, if none of them can have been rounded."""
    if not (np.isfinite(labels).all() and (labels == np.floor(labels)).all()):
        raise DataError(f"labels in {source} are not whole numbers; give class numbers or class names")
    largest = 2 ** (np.finfo(labels.dtype).nmant + 1)
    if np.abs(labels).max() >= largest:
        raise DataError(
            f"labels in {source} have dtype {labels.dtype} and reach {np.abs(labels).max():.0f}; from "
            f"{largest:,} on, {labels.dtype} rounds neighboring whole numbers to one, so that different classes "
            "may have become the same; save the labels as integers"
        )
    return labels.astype(np.int64)


def _pick(file: Path, names: tuple[str, ...], dimensions: int) -> Any:
    """The matrix (2) or column (1) of a file."""
    if not file.is_file():
        raise FileError(f"no file {file}{found_instead(file)}; expected a .npy, .npz or .parquet file")
    try:
        if file.suffix == ".npy":
            found = np.load(file, mmap_mode="r", allow_pickle=False)
        elif file.suffix == ".npz":
            with file.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
                found = arrays[_choose(file, arrays.files, names)]
        elif file.suffix in (".parquet", ".pq"):
            found = _from_parquet(file, names, dimensions)
        else:
            raise FileError(f"{file} ends in '{file.suffix}'; expected .npy, .npz or .parquet")
    except LookalikeError:
        raise
    except ARRAY_ERRORS as error:
        why = first_line(error)
        if "object" in why:  # numpy then advises to load it unsafely
            why = "it holds Python objects (a pickle), which could run code; expected an array of numbers or of text"
        raise FileError(f"{file} cannot be read: {why}; save it again") from error
    if found.ndim != dimensions:
        kind = "a matrix (N, D)" if dimensions == 2 else "one label per row"
        raise DataError(f"{file} has an array of shape {found.shape}; expected {kind}")
    return found


def _choose(file: Path, present: list[str], names: tuple[str, ...]) -> str:
    for name in names:
        if name in present:
            return name
    if len(present) == 1:
        return present[0]
    raise DataError(f"{file} holds {', '.join(present)}; expected one called {' or '.join(names)}")


def _from_parquet(file: Path, names: tuple[str, ...], dimensions: int) -> np.ndarray:
    import polars as pl

    with polars_errors(file):
        frame = pl.read_parquet(file)
    if dimensions == 1:
        return frame[_choose(file, frame.columns, names)].to_numpy()
    for name in names:
        if name in frame.columns:
            column = frame[name]
            if isinstance(column.dtype, pl.List):
                widths = column.list.len().unique()
                if len(widths) != 1:
                    raise DataError(f"column {name} of {file} holds lists of different lengths")
                column = column.cast(pl.Array(pl.Float32, int(widths[0])))
            return column.to_numpy()
    numeric = [name for name in frame.columns if name not in _LABEL_NAMES and frame[name].dtype.is_float()]
    if not numeric:
        raise DataError(f"{file} has no column {' or '.join(names)}, nor columns of floating numbers")
    return frame.select(numeric).to_numpy()


def _code(parts: list[np.ndarray]) -> tuple[list[np.ndarray], list[str] | None]:
    """Labels as integers; words are numbered in sorted order and kept as names."""
    if all(np.issubdtype(part.dtype, np.integer) for part in parts):
        return parts, None
    words = [part.astype(str) for part in parts]
    names, codes = np.unique(np.concatenate(words), return_inverse=True)
    ends = np.cumsum([len(part) for part in words])[:-1]
    return [code.astype(np.int64) for code in np.split(codes, ends)], names.tolist()
