"""From whatever the user points at to a table: `read` recognizes the layout by its content.

A published layout is an entry of `readers.LAYOUTS`. Anything else is a table (`path,label`), or a folder of class
folders; archives of any of these are unpacked into the cache.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from lookalike.data import registry
from lookalike.data.dataset import LabeledImages
from lookalike.data.readers import LAYOUTS
from lookalike.data.readers.archives import is_archive, unpack
from lookalike.data.readers.files import inside_single_folder, is_litter
from lookalike.data.readers.folder import read_class_folders
from lookalike.data.readers.split_files import with_split_file
from lookalike.data.readers.tables import is_table, read_frame, read_table
from lookalike.errors import DataError, UnknownNameError
from lookalike.utils.validation import look_up, near_miss


def read(
    source: str | Path,
    *,
    layout: str | None = None,
    verify: bool = True,
    labeled: bool = True,
) -> LabeledImages:
    """The data set at `source`.

    Args:
        source: `glyphs` (built in), a registered name, a folder of class folders, a table with the columns
            `path,label`, a published data set's folder, or a zip or tar archive of any of these. To read a
            folder that is called like a data set, write `./glyphs`.
        layout: insists on one of `LAYOUTS` instead of recognizing it.
        verify: checks published counts, and that all listed files are there.
        labeled: False accepts images without class (for embedding and search).

    Raises:
        DataError: no images, fewer than two classes, counts that do not match; with the remedy.
        UnknownNameError: there is no such file, folder or data set.
    """
    table = _read(source, layout, verify, labeled)
    if labeled and len(np.unique(table.labels)) < 2:
        raise DataError(
            f"{source}: all {len(table)} images are of one class, '{table.class_names[table.labels[0]]}'; "
            "comparing needs at least two classes, each in its own folder"
        )
    return table


def _read(source: str | Path, layout: str | None, verify: bool, labeled: bool) -> LabeledImages:
    text = os.fspath(source)
    if text in registry.BUILT_IN:
        return registry.BUILT_IN[text]()
    path = Path(source).expanduser()
    if not path.exists():
        registered = registry.registered()
        if text in registered:
            path, layout = Path(registered[text].path), layout or registered[text].layout
            if not path.exists():
                raise DataError(f"'{text}' was added from {path}, which is gone; add it again")
        else:
            raise UnknownNameError(_not_found(text, [*registry.BUILT_IN, *registered]))
    if path.is_dir():
        return _read_folder(path, layout, verify, labeled)
    if is_archive(path):
        table = _read_folder(unpack([path]), layout, verify, labeled)
        known = layout is not None or table.name in LAYOUTS
        return table if known else replace(table, name=path.name.split(".")[0])
    if is_table(path):
        return read_table(path, verify=verify, labeled=labeled)
    raise DataError(f"{path}: not a folder, an archive (zip, tar) or a table (csv, tsv, parquet, jsonl)")


def _not_found(text: str, names: list[str]) -> str:
    missing = f"no file, folder or data set '{text}'"
    return (
        f"{missing}{near_miss(text, names)} (data sets: {', '.join(names)}; `lookalike data add` adds more)"
    )


def _read_folder(folder: Path, layout: str | None, verify: bool, labeled: bool) -> LabeledImages:
    known = LAYOUTS if layout is None else {layout: look_up(LAYOUTS, layout, "layout")}
    for candidate in _candidates(folder):
        for entry in known.values():
            if entry.recognizes(candidate):
                return with_split_file(entry.read(candidate, verify=verify))
    if layout is not None:
        raise DataError(f"{folder}: does not look like {layout} ({LAYOUTS[layout].about}); unpack it whole")
    if (table := _only_table(inside_single_folder(folder))) is not None:
        return replace(read_table(table, verify=verify, labeled=labeled), name=folder.name)
    return with_split_file(read_class_folders(folder, labeled=labeled))


def _candidates(folder: Path) -> Iterator[Path]:
    """The folder, then the folders in it, two levels deep, as long as there are few."""
    level = [folder]
    for _ in range(3):
        yield from level
        level = [e for at in level for e in sorted(at.iterdir()) if e.is_dir() and not is_litter(e.name)]
        if len(level) > 8:
            return


def _only_table(folder: Path) -> Path | None:
    """The one table in `folder` with the columns path and label, or None."""
    tables = [e for e in sorted(folder.iterdir()) if is_table(e) and not is_litter(e.name)]
    fitting = [t for t in tables if _has_columns(t)]
    if len(fitting) > 1:
        raise DataError(f"{folder}: {len(fitting)} tables could describe it; name one, such as {fitting[0]}")
    return fitting[0] if fitting else None


def _has_columns(table: Path) -> bool:
    try:
        columns = set(read_frame(table).columns)
    except DataError:
        return False
    return "label" in columns and bool(columns & {"path", "file_name"})
