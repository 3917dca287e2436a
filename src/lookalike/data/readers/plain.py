"""Reads folders of no published layout: a table in it, a table per part, or class folders."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from lookalike.data.dataset import LabeledImages
from lookalike.data.labels import notes_on_labels, refuse_negative
from lookalike.data.readers.annotations import annotation_format
from lookalike.data.readers.columns import describes_images, find_columns
from lookalike.data.readers.files import images_below, inside_single_folder, is_system_file, subfolders
from lookalike.data.readers.folder import part_of, read_class_folders
from lookalike.data.readers.frames import SUFFIXES, is_table, read_frame
from lookalike.data.readers.json_document import looks_like_coco
from lookalike.data.readers.merge import merge_parts, path_below
from lookalike.data.readers.split_files import SPLIT_FILE, with_split_file
from lookalike.data.readers.tables import read_table
from lookalike.errors import DataError
from lookalike.utils.what_is import what_is

FEW = 12
"""Folders at the top in which tables are looked for."""


@dataclass(frozen=True)
class ReadOptions:
    """How data is read; every command that reads takes these.

    Attributes:
        layout: one of `LAYOUTS` to insist on, or "folder" for class folders; None recognizes the layout.
        verify: check published counts, and that all listed files are there.
        labeled: False accepts images without labels (for embedding, search and checks).
        ignore_labels: labels of table rows that are left out, such as "-1" for junk.
    """

    layout: str | None = None
    verify: bool = True
    labeled: bool = True
    ignore_labels: tuple[str, ...] = ()


def read_plain(folder: Path, options: ReadOptions) -> LabeledImages:
    """A table in the folder, tables in its part folders, or class folders."""
    kind = what_is(folder)
    if kind and not images_below(folder):
        raise DataError(
            f"{folder}: holds no images; it is {kind}; expected the folder, table or archive of a data set"
        )
    inner = inside_single_folder(folder)
    for place in dict.fromkeys((folder, inner)):
        tables = _tables(place)
        if not tables:
            tables = [t for at in _part_folders(place) for t in _tables(at)]
        if tables:
            return _read_tables(tables, place, options)
    annotated = annotation_format(folder) if options.labeled else None
    if annotated:
        raise DataError(
            f"{folder}: annotated as {annotated}, which is not read; export it as COCO and name that file, whose boxes "
            "are then images, or insist on folders as classes with --layout folder"
        )
    places = (folder, *_folders(folder))
    notes = [note for at in places for note in _notes_on_other_tables(at, folder)]
    lists = [
        file.relative_to(folder) for at in places for file in sorted(at.glob("*.txt")) if part_of(file.stem)
    ]
    if lists:
        notes.append(
            f"the list {lists[0]} was not read; if it says what is for training, write a table with the columns "
            "path,label,split"
        )
    try:
        table = read_only_folders(folder, options)
    except DataError as error:
        raise (DataError(f"{error} ({notes[0]})") if notes else error) from None
    if notes and options.labeled and table.num_classes < 2:
        raise DataError(f"{folder}: all {len(table):,} images are in one folder, and {notes[0]}")
    return replace(table, notes=(*notes[:3], *table.notes))


def _folders(folder: Path) -> list[Path]:
    """The folders in `folder`, as long as there are few."""
    found = subfolders(folder, FEW + 1)
    return sorted(found) if len(found) <= FEW else []


def _notes_on_other_tables(place: Path, folder: Path) -> list[str]:
    """What keeps tables in `place` from being read."""
    notes = [
        f"the annotations {file.relative_to(folder)} were not read; name the file to read it: {file}"
        for file in sorted(place.glob("*.json"))[:FEW]
        if file.is_file() and looks_like_coco(file)
    ]
    for file in sorted(_table_files(place), key=lambda file: part_of(file.stem) is None):
        name = file.relative_to(folder)
        try:
            frame = read_frame(file, head=True)
            described, columns = describes_images(frame), find_columns(frame)
        except DataError as error:
            notes.append(f"the table {name} was not read: {error}")
            continue
        if described:
            notes.append(
                f"the table {name} was not read, since it lies in a folder; name it to read it: {file}"
            )
        elif all(columns):
            notes.append(
                f"the table {name} was not read, since its columns are called {' and '.join(map(str, columns))}; name "
                f"it to read it: {file}"
            )
        else:
            has = ", ".join([*frame.columns][:6])
            notes.append(f"the table {name} was not read: it has the columns {has}, and not path and label")
    return notes


def read_only_folders(folder: Path, options: ReadOptions) -> LabeledImages:
    """Class folders, whatever tables lie among them."""
    table = read_class_folders(folder, labeled=options.labeled)
    ignored = [name for name in table.class_names if name in options.ignore_labels]
    if ignored:
        kept = [i for i, name in enumerate(table.class_names) if name not in ignored]
        note = f"{folder.name}: the classes {', '.join(ignored)} are left out"
        table = replace(table.of_classes(kept), notes=(*table.notes, note))
    for name in table.class_names if options.labeled else ():
        refuse_negative(f"{folder}: the folder {name}/", name)
    return with_split_file(replace(table, notes=(*table.notes, *notes_on_labels(table.class_names))))


def _part_folders(folder: Path) -> list[Path]:
    places = (folder / name for name in sorted(os.listdir(folder)) if part_of(name))
    return [place for place in places if place.is_dir()]


def _tables(folder: Path) -> list[Path]:
    """Tables in `folder` with the columns path and label."""
    return [file for file in _table_files(folder) if _fits(file)]


def _table_files(folder: Path) -> list[Path]:
    """Tables of any columns in `folder`."""
    names = (name for name in sorted(os.listdir(folder)) if name.lower().endswith(SUFFIXES))
    files = (folder / name for name in names if not is_system_file(name) and name != SPLIT_FILE)
    return [file for file in files if is_table(file)]


def _fits(table: Path) -> bool:
    try:
        return describes_images(read_frame(table, head=True))
    except DataError:
        return False


def _read_tables(tables: list[Path], folder: Path, options: ReadOptions) -> LabeledImages:
    """The one table, or one table per split (train.csv, test.csv; train/metadata.csv, test/metadata.csv)."""
    parts = [part_of(file.stem) or part_of(file.parent.name) for file in tables]
    if len(tables) > 1 and not all(parts):
        names = ", ".join(str(file.relative_to(folder)) for file in tables[:4])
        raise DataError(
            f"{folder}: {len(tables)} tables could describe it ({names}); name one, such as {tables[0]}"
        )
    read_all = [
        read_table(file, verify=options.verify, labeled=options.labeled, ignore_labels=options.ignore_labels)
        for file in tables
    ]
    if len(tables) == 1:
        table = read_all[0]
    else:
        table = merge_parts(folder, [(t, part) for t, part in zip(read_all, parts, strict=True) if part])
    names = " and ".join(str(file.relative_to(folder)) for file in tables)
    beside = len(
        set(images_below(folder))
        - {path_below(table, table.file_path(row), folder) for row in range(len(table))}
    )
    note = f"read as the table {names}" + (f"; {beside:,} images next to it are not in it" if beside else "")
    return replace(table, name=folder.name, notes=(note, *table.notes))
