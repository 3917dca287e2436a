"""Reads tables with the columns path and label, and optional split, role, coarse and box columns."""

import os
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import compress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lookalike.data.dataset import CoarseLevel, Ints, LabeledImages, Words, number_labels, with_box
from lookalike.data.labels import notes_on_labels, refuse_negative
from lookalike.data.readers.columns import (
    BOX_COLUMNS,
    FLAG_COLUMNS,
    choose_columns,
    find_split,
    hint_on_boxes,
    is_coarse,
    notes_on_columns,
)
from lookalike.data.readers.folder import Part, part_of
from lookalike.data.readers.frames import Frame, read_frame
from lookalike.data.readers.paths import find_files, is_utf8, relative_to
from lookalike.errors import DataError

YES = frozenset({"true", "1", "yes"})
LONGEST_PATH = 4096
BASE64 = ("/9j/4A", "iVBORw0KGgo", "data:image/")
"""How JPEG and PNG begin when they are written as text."""
NO = frozenset({"false", "0", "no", ""})


def read_table(
    path: Path, *, verify: bool = True, labeled: bool = True, ignore_labels: Collection[str] = ()
) -> LabeledImages:
    """The data set that a table describes.

    Columns: `path` (or `file_name`; relative to the table's folder, or absolute), `label` (strings or
    integers; surrounding spaces do not count); optional `split` (train, validation, test, query, gallery),
    `is_query` and `is_gallery` (true/false), `x_1`, `y_1`, `x_2`, `y_2` (the part of the image that counts, in
    pixels), and coarser classes in `super_class`, `coarse` or any column whose name starts with `coarse_`.
    Other columns are left alone and named in a note.

    Args:
        path: the table.
        verify: whether all files must be there.
        labeled: False accepts images without labels, which are then of one class, `.`.
        ignore_labels: rows with these labels are left out, such as -1 for junk.

    Raises:
        DataError: naming the table, the row and the remedy.
    """
    frame = read_frame(path)
    if not len(frame):
        raise DataError(f"{path}: the table has no rows; expected one row per image, with path and label")
    path_column, label_column = choose_columns(frame, labeled)
    notes = notes_on_columns(frame, path_column, label_column)
    if label_column is None and any(name.casefold() == "label" for name in frame.nested):
        notes.append(
            f"{path.name}: the images have no labels: the column 'label' holds lists, objects or bytes"
        )
    if ignore_labels and label_column is not None:
        kept = [(v or "").strip() not in ignore_labels for v in frame.columns[label_column]]
        if not all(kept):
            notes.append(
                f"{path.name}: {kept.count(False):,} rows with label {', '.join(ignore_labels)} left out"
            )
            frame = _keep(frame, kept)
    entries = _filled(frame, path_column, strip=False)
    _refuse_content(frame, entries)
    if label_column is None:
        raw = ["."] * len(frame)
    elif labeled:
        raw = _filled(frame, label_column)
    else:
        raw = [(value or "").strip() or "." for value in frame.columns[label_column]]
        if bare := [at for at, label in enumerate(raw) if label == "."]:
            notes.append(f"{path.name}: {len(bare):,} images have no label (first: {frame.place(bare[0])})")
    _check_labels(frame, entries, raw)
    boxes = _boxes(frame)
    paths = [relative_to(path.parent, entry) for entry in entries]
    _refuse_repeats(frame, paths, boxes)
    paths, found_notes = find_files(path.name, path.parent, entries, verify=verify)
    if found_notes:
        notes += found_notes
        _refuse_repeats(frame, paths, boxes)
    if boxes is not None:
        times = Counter(paths)
        paths = [
            with_box(p, box) if times[p] > 1 else p for p, box in zip(paths, boxes.tolist(), strict=True)
        ]
    labels, names = number_labels(raw)
    parts = _parts(frame)
    split = None if parts is None else np.array([part.split for part in parts], dtype=np.str_)
    if split is not None and frame.find(*FLAG_COLUMNS) and set(split) == {"train", "validation"}:
        split = np.where(split == "train", "train", "test")
        notes.append(f"{path.name}: read as a table of Open Metric Learning; its validation part is the test")
    return LabeledImages(
        path.parent,
        tuple(paths),
        labels,
        names,
        coarse=tuple(_coarse(frame, c, labels, names) for c in frame.columns if is_coarse(c)),
        split=split,
        role=_roles(frame, split, parts),
        boxes=boxes,
        name=path.stem,
        notes=(*notes, *notes_on_labels(names)),
    )


def _keep(frame: Frame, kept: Sequence[bool]) -> Frame:
    columns = {name: list(compress(column, kept)) for name, column in frame.columns.items()}
    return Frame(frame.file, columns, list(compress(frame.rows, kept)), frame.unit, frame.nested)


def _filled(frame: Frame, column: str, *, strip: bool = True) -> list[str]:
    values = []
    for at, value in enumerate(frame.columns[column]):
        if value is None or not value.strip():
            raise DataError(f"{frame.where(at)} has no '{column}'; fill it in or remove the row")
        values.append(value.strip() if strip else value)
    return values


def _refuse_content(frame: Frame, entries: Sequence[str]) -> None:
    """Refuses what cannot be the path of a file, such as an image itself as text."""
    for at, entry in enumerate(entries):
        if len(entry) > LONGEST_PATH or entry.startswith(BASE64):
            raise DataError(
                f"{frame.where(at)} has {len(entry):,} characters in place of a path; images written as text (base64) "
                "are not read: save them as files"
            )


def _check_labels(frame: Frame, entries: Sequence[str], labels: Sequence[str]) -> None:
    for at, (entry, label) in enumerate(zip(entries, labels, strict=True)):
        refuse_negative(f"{frame.where(at)} ({entry})", label)
        if not is_utf8(label) and is_utf8(entry):
            raise DataError(
                f"{frame.where(at)} ({entry}) has a label that is not UTF-8; save the table as UTF-8 "
                "(it may be Latin-1 or a Windows code page)"
            )


def _boxes(frame: Frame) -> Ints | None:
    columns = [frame.find(name) for name in BOX_COLUMNS]
    named = [column for column in columns if column is not None]
    if not named:
        return None
    if len(named) < len(BOX_COLUMNS):
        raise DataError(f"{frame.file}: has {', '.join(named)} alone; a box needs x_1, y_1, x_2 and y_2")
    boxes: npt.NDArray[np.int64] = np.zeros((len(frame), 4), dtype=np.int64)
    for at in range(len(frame)):
        texts = [frame.columns[name][at] for name in named]
        try:
            exact = [float((text or "").replace(",", ".")) for text in texts]
            left, top, right, bottom = map(round, exact)
        except (ValueError, OverflowError):
            left = right = top = bottom = 0
        else:
            if max(exact) <= 1 and not all(map(float.is_integer, exact)):
                raise DataError(
                    f"{frame.where(at)} has the box {texts} in fractions of the image; expected pixels: multiply by "
                    "its width and height"
                )
        if not (0 <= left < right and 0 <= top < bottom):
            raise DataError(
                f"{frame.where(at)} has the box {texts}; expected pixels with x_1 < x_2 and y_1 < y_2"
            )
        boxes[at] = left, top, right, bottom
    return boxes


def _refuse_repeats(frame: Frame, paths: Sequence[str], boxes: Ints | None) -> None:
    """Refuses an image, or the same box of an image, that is listed twice, under one name or two."""
    root = frame.file.parent
    seen: dict[tuple[str, ...], int] = {}
    for at, path in enumerate(paths):
        box = () if boxes is None else tuple(map(str, boxes[at].tolist()))
        key = (os.path.normpath(root.absolute() / path), *box)
        if key in seen:
            what = "image" if boxes is None else "box of an image"
            raise DataError(
                f"{frame.where(at)} lists {path} a second time, after {frame.place(seen[key])}; "
                f"list each {what} once{hint_on_boxes(frame)}"
            )
        seen[key] = at


def _parts(frame: Frame) -> list[Part] | None:
    column = find_split(frame)
    if column is None:
        return None
    parts = []
    for at, word in enumerate(_filled(frame, column)):
        part = part_of(word)
        if part is None:
            raise DataError(
                f"{frame.where(at)} has split '{word}'; expected train, validation, test, query or gallery"
            )
        parts.append(part)
    return parts


def _roles(frame: Frame, split: Words | None, parts: list[Part] | None) -> Words | None:
    if all(frame.find(name) is None for name in FLAG_COLUMNS):
        if parts is None or all(part.role == "both" for part in parts):
            return None
        return np.array([part.role for part in parts], dtype=np.str_)
    asks, found = (_flags(frame, name) for name in FLAG_COLUMNS)
    roles = []
    for at, (query, gallery) in enumerate(zip(asks, found, strict=True)):
        if not query and not gallery and (split is None or split[at] == "test"):
            raise DataError(f"{frame.where(at)} is neither query nor gallery; set one, or remove the row")
        roles.append("both" if query == gallery else "query" if query else "gallery")
    return np.array(roles, dtype=np.str_)


def _flags(frame: Frame, name: str) -> list[bool]:
    column = frame.find(name)
    if column is None:
        raise DataError(f"{frame.file}: is_query and is_gallery go together; the column '{name}' is missing")
    flags = []
    for at, value in enumerate(frame.columns[column]):
        word = (value or "").strip().casefold()
        if word not in YES and word not in NO:
            raise DataError(f"{frame.where(at)} has {column} '{value}'; expected true or false")
        flags.append(word in YES)
    return flags


def _coarse(frame: Frame, column: str, labels: Ints, names: Sequence[str]) -> CoarseLevel:
    raw = _filled(frame, column)
    numbers, coarse_names = number_labels(raw)
    parents = np.full(len(names), -1, dtype=np.int64)
    for at, (label, parent) in enumerate(zip(labels.tolist(), numbers.tolist(), strict=True)):
        if parents[label] not in (-1, parent):
            raise DataError(
                f"{frame.where(at)} puts class '{names[label]}' into {column} '{raw[at]}', an "
                f"earlier row into '{coarse_names[parents[label]]}'; give each class one {column}"
            )
        parents[label] = parent
    return CoarseLevel(column, parents, coarse_names)
