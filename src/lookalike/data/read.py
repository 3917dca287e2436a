"""`read`: the data set at a path or name, its layout recognized by its content.

A published layout is an entry of `readers.LAYOUTS`. Anything else is a table (`path,label`) or a folder of class
folders; archives of any of these are unpacked into the cache.
"""

import errno
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from lookalike.data import registry
from lookalike.data.dataset import LabeledImages
from lookalike.data.labels import is_unlabeled
from lookalike.data.readers import LAYOUTS, Layout
from lookalike.data.readers.archives import is_archive, unpack, unpacking_notes
from lookalike.data.readers.files import IncompleteError, inside_single_folder, is_image, subfolders
from lookalike.data.readers.frames import SPREADSHEETS, is_table
from lookalike.data.readers.image_column import Shard, holds_images, read_shards
from lookalike.data.readers.plain import ReadOptions, read_only_folders, read_plain
from lookalike.data.readers.split_files import with_split_file
from lookalike.data.readers.tables import read_table
from lookalike.errors import DataError, LookalikeError, UnknownNameError
from lookalike.utils.validation import look_up, near_miss
from lookalike.utils.what_is import similar_path

CONTAINERS = {
    ".tfrecord": "TFRecord", ".tfrecords": "TFRecord", ".mdb": "LMDB", ".rec": "RecordIO", ".h5": "HDF5",
    ".hdf5": "HDF5", ".npz": "NumPy", ".npy": "NumPy", ".mat": "MATLAB", ".pkl": "pickle", ".pickle": "pickle",
    ".pt": "PyTorch", ".feather": "Feather", ".arrow": "Arrow", ".db": "SQLite", ".sqlite": "SQLite",
}  # fmt: skip
"""Files that may hold images or tables, and are not read."""
OTHER_ARCHIVES = (".7z", ".rar", ".gz", ".zst", ".bz2", ".xz", ".lz4")
PART_OF_ARCHIVE = re.compile(r"\.(zip|7z|rar|tar|gz|tgz)\.\d{2,3}$|\.(z|r)\d{2}$")
MANY = 9
"""From so many folders of one level on, no data set is looked for in them."""
FOLDER = "folder"
"""The layout that insists on class folders, whatever tables or published lists lie in the folder."""


SUBSET = 0.9
"""With a smaller share of its published counts, a published data set counts as a subset or rearranged copy."""


def read(
    source: str | Path,
    *,
    layout: str | None = None,
    verify: bool = True,
    labeled: bool = True,
    ignore_labels: Collection[str] = (),
) -> LabeledImages:
    """The data set at `source`; what was left out or looks odd is in the table's `notes`.

    Args:
        source: `glyphs` (built in), a registered name, a folder of class folders, a table with the columns
            `path,label`, a published data set's folder, or a zip or tar archive of any of these. To read a
            folder that is called like a data set, write `./glyphs`.
        layout, verify, labeled, ignore_labels: see `ReadOptions`.

    Raises:
        DataError: no images, fewer than two classes, counts that do not match; with the remedy.
        UnknownNameError: there is no such file, folder or data set.
    """
    options = ReadOptions(layout, verify, labeled, tuple(ignore_labels))
    try:
        table = _read(source, options)
    except OSError as error:
        if isinstance(error, LookalikeError):
            raise
        raise DataError(f"{_unreadable(error, source)} ({error.strerror or error})") from error
    if labeled and is_unlabeled(table):
        raise DataError(
            f"{source}: the images have no labels; give them a column 'label', or a folder per class"
        )
    if labeled and len(np.unique(table.labels)) < 2:
        raise DataError(
            f"{source}: all {len(table)} images are of one class, '{table.class_names[table.labels[0]]}'; "
            "comparing needs at least two classes, each in its own folder"
        )
    return replace(table, source=_place(source))


def _unreadable(error: OSError, source: str | Path) -> str:
    """What cannot be read: a file, or the folder that it was looked for in."""
    if not isinstance(error.filename, str):
        return f"{source}: cannot be read"
    folder = os.path.dirname(error.filename)
    if error.errno == errno.EACCES and not os.access(folder or ".", os.X_OK):
        return f"{folder}: cannot be entered; change its permissions"
    return f"{error.filename}: cannot be read"


def _place(source: str | Path) -> str:
    """An absolute path, or a name such as glyphs, under which the data can be read again."""
    text, path = os.fspath(source), Path(source).expanduser()
    return str(path.resolve()) if text not in registry.BUILT_IN and path.exists() else text


def _read(source: str | Path, options: ReadOptions) -> LabeledImages:
    text = os.fspath(source)
    if not text:
        raise DataError(
            "the data set's name is empty; give a folder, table or archive, or . for the current folder"
        )
    if text in registry.BUILT_IN:
        return registry.BUILT_IN[text]()
    path = Path(source).expanduser()
    if not path.exists():
        registered = registry.registered()
        if text not in registered:
            raise UnknownNameError(_not_found(text, [*registry.BUILT_IN, *registered]))
        entry = registered[text]
        path = Path(entry.path)
        options = replace(
            options,
            layout=options.layout or entry.layout,
            verify=options.verify and entry.verify,
            ignore_labels=options.ignore_labels or tuple(entry.ignore_labels),
        )
        if not path.exists():
            raise DataError(f"'{text}' was added from {path}, which is gone; add it again")
    if path.is_dir():
        table = _read_folder(path, options)
        return replace(table, notes=(*unpacking_notes(path), *table.notes))
    if is_archive(path):
        unpacked = unpack([path])
        try:
            table = _read_folder(inside_single_folder(unpacked), options)
        except DataError as error:  # nobody knows the folder in the cache
            said = str(error).replace(str(unpacked), str(path)).replace("; name it to", "; unpack it to")
            raise DataError(said) from error
        table = replace(table, notes=(*unpacking_notes(unpacked), *table.notes))
        known = options.layout in LAYOUTS or table.name in LAYOUTS
        return table if known else replace(table, name=path.name.split(".")[0])
    if holds_images(path):
        return read_shards(
            [Shard(path)],
            path.stem,
            verify=options.verify,
            labeled=options.labeled,
            ignore_labels=options.ignore_labels,
        )
    if is_table(path) or path.suffix.lower() == ".json":
        return read_table(
            path, verify=options.verify, labeled=options.labeled, ignore_labels=options.ignore_labels
        )
    if path.suffix.lower() in OTHER_ARCHIVES:
        raise DataError(f"{path}: only zip and tar archives are read; unpack it and give what it holds")
    if PART_OF_ARCHIVE.search(path.name.lower()):
        raise DataError(
            f"{path}: one part of a divided archive; unpack it with the other parts and give the folder"
        )
    if path.suffix.lower() == ".txt":
        raise DataError(f"{path}: a list of text; save it as CSV with the header path,label")
    if path.suffix.lower() in CONTAINERS:
        raise DataError(
            f"{path}: {CONTAINERS[path.suffix.lower()]} is not read; write its images as files in a "
            "folder per class, or into Parquet with the columns image (bytes) and label"
        )
    if path.suffix.lower() in SPREADSHEETS:
        raise DataError(f"{path}: not a folder, an archive or a table; export the spreadsheet as CSV")
    if is_image(path):
        raise DataError(f"{path}: a single image; expected the folder, table or archive of a data set")
    raise DataError(f"{path}: not a folder, an archive (zip, tar) or a table (csv, tsv, parquet, jsonl)")


def _not_found(text: str, names: list[str]) -> str:
    if "://" in text:
        return f"'{text}' is an address; give a folder or file, or fetch an archive: lookalike data add NAME ADDRESS"
    missing = f"no file, folder or data set '{text}'"
    hint = similar_path(text) or near_miss(text, names)
    return f"{missing}{hint} (data sets: {', '.join(names)}; `lookalike data add` adds more)"


def _read_folder(folder: Path, options: ReadOptions) -> LabeledImages:
    if options.layout == FOLDER:
        return read_only_folders(folder, options)
    layouts = (
        LAYOUTS if options.layout is None else {options.layout: look_up(LAYOUTS, options.layout, "layout")}
    )
    for level in _levels(folder):
        found = [(at, name) for at in level if (name := _recognized(at, layouts))]
        if len(found) > 1:
            names = ", ".join(f"{at} ({name})" for at, name in found[:4])
            raise DataError(f"{folder}: holds {len(found)} data sets, {names}; name one of them")
        if not found:
            continue
        at, name = found[0]
        beside = [f"{other.name}/" for other in level if other != at]
        note = f"read as {name} in {at.name}/; not read: {', '.join(beside)}"
        try:
            table = with_split_file(_read_layout(name, LAYOUTS[name], at, options.verify))
            return replace(table, notes=(note, *table.notes)) if beside else table
        except IncompleteError as error:
            if options.layout or error.share > SUBSET:
                raise
            return with_split_file(_read_as_plain(folder, options, name, error))
    if options.layout is not None:
        about = LAYOUTS[options.layout].about
        raise DataError(f"{folder}: does not look like {options.layout} ({about}); unpack it whole")
    return read_plain(folder, options)


def _recognized(folder: Path, layouts: Mapping[str, Layout]) -> str | None:
    """The first of `layouts` that a folder looks like."""
    return next((name for name, layout in layouts.items() if layout.recognizes(folder)), None)


def _read_layout(name: str, layout: Layout, folder: Path, verify: bool) -> LabeledImages:
    """A published data set; whatever its lists lack is an error that names the folder."""
    try:
        return layout.read(folder, verify=verify)
    except (LookupError, ValueError, TypeError, AttributeError, pl.exceptions.PolarsError) as error:
        if isinstance(error, LookalikeError):
            raise
        raise DataError(f"{folder}: looks like {name}, but its lists are damaged ({error!r})") from error


def _read_as_plain(folder: Path, options: ReadOptions, name: str, error: IncompleteError) -> LabeledImages:
    """Class folders or a table that look like a published data set but are not the whole of it."""
    try:
        table = read_plain(folder, options)
    except LookalikeError:
        raise error from None
    if options.labeled and len(np.unique(table.labels)) < 2:
        raise error
    note = (
        f"{folder} looks like {name}, but is not all of it ({error}); read as plain folders without the published "
        f"split (--layout {name} insists)"
    )
    return replace(table, notes=(note, *table.notes))


def _levels(folder: Path) -> Iterator[list[Path]]:
    """The folder, then the folders in it, two levels deep, as long as there are few."""
    level = [folder]
    for _ in range(3):
        yield level
        level = [entry for at in level for entry in sorted(subfolders(at, MANY))]
        if len(level) >= MANY:
            return
