"""Paths in tables: relative ones, and files meant by backslashes, missing suffixes, other folders, composed letters."""

import os
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from lookalike.data.dataset import LabeledImages
from lookalike.data.readers.files import images_below, missing_files
from lookalike.data.readers.formulas import is_formula
from lookalike.errors import DataError

TABLE_FOLDERS = frozenset(
    {"annotations", "annotation", "anno", "metadata", "meta", "labels", "lists", "splits", "csv"}
)
"""Names of folders that hold tables about images in the folders next to them."""


def relative_to(root: Path, entry: str) -> str:
    """A table's entry as a path below `root` where it lies there, else as given; always with `/`."""
    if entry.startswith("file:"):
        entry = url2pathname(urlsplit(entry).path)
    whole = os.path.normpath(os.path.join(root.absolute(), entry))
    home = os.path.join(os.path.normpath(root.absolute()), "")
    return Path(whole[len(home) :] if whole.startswith(home) else entry).as_posix()


def find_files(
    name: str, root: Path, entries: Sequence[str], *, verify: bool = True
) -> tuple[list[str], tuple[str, ...]]:
    """Paths of the files that `entries` mean, and a note where that took more than reading them.

    An entry that is not there is completed where exactly one image below `root` fits, or below the folder above
    it where the table lies in a folder for tables or its entries start from there: with `/` for a backslash,
    without surrounding spaces, with a suffix, in other case or other Unicode form, with `%20` decoded, or, where
    no entry is there as it is given, in another folder.

    Without `verify`, for tables of which files may have gone, that is done only where no entry is there as it is
    given, and what is not found stays as it is.

    Raises:
        DataError: with `verify`, entries that no file, or more than one, fits.
    """
    paths = [relative_to(root, entry) for entry in entries]
    missing = set(missing_files(root, paths))
    if not missing or not (verify or missing.issuperset(paths)):
        return paths, ()
    start = _search_root(root, paths[0])
    below = images_below(start)
    by_key = _index(below if start == root else [f"../{path}" for path in below])
    found = {path: _fitting(path, by_key) for path in missing}
    moved = missing.issuperset(paths)
    bad = [
        path
        for path in paths
        if path in missing and (len(found[path]) != 1 or not (moved or _same_folder(path, min(found[path]))))
    ]
    if bad and verify:
        first = bad[0]
        stem = first.rpartition("/")[2].partition(".")[0]
        fits = sorted(
            found[first]
            or _fitting(first.rpartition(".")[0], by_key)  # as if it had no suffix
            or {file for file in below if stem.isdecimal() and _number(file) == stem}
        )
        hint = f"; it could be {' or '.join(fits[:2])}" if fits else ""
        given = entries[paths.index(first)]
        kind = "; images at web addresses are not fetched, download them" if "://" in given else ""
        kind = kind or ("; write / instead of the backslash" if "\\" in first else "")
        kind = kind or ("" if is_utf8(first) else "; save the table as UTF-8")
        raise DataError(
            f"{name}: {len(bad):,} of {len(paths):,} images are missing below {root}, first {given}{hint}{kind}; "
            "correct the column 'path': it is relative to the table's folder, or use what is there with --no-verify"
        )
    done = missing.difference(bad)
    if not done:
        return paths, ()
    result = [min(found[path]) if path in done else path for path in paths]
    example = next(i for i, path in enumerate(paths) if path in done)
    count = sum(path in done for path in paths)
    note = (
        f"{name}: {count:,} of {len(paths):,} paths were completed to the one file that fits, "
        f"such as {entries[example]} to {result[example]}"
    )
    return result, (note,)


def is_utf8(text: str) -> bool:
    """Whether text was read from bytes that are UTF-8."""
    return not any("\udc80" <= sign <= "\udcff" for sign in text)


def _search_root(root: Path, first: str) -> Path:
    """The table's folder, or the one above it."""
    above = root.absolute().parent
    return above if root.absolute().name.casefold() in TABLE_FOLDERS or (above / first).is_file() else root


def _index(files: Sequence[str]) -> dict[str, set[str]]:
    """Files by every tail of their path, with and without suffix."""
    by_key: dict[str, set[str]] = defaultdict(set)
    for file in files:
        stem = file.rpartition(".")[0]
        for tail in (*_tails(_key(file)), *_tails(_key(stem))):
            by_key[tail].add(file)
    return by_key


def _fitting(entry: str, by_key: dict[str, set[str]]) -> set[str]:
    """Files with the longest common tail; where there is none, of the path with `%20` and the like decoded."""
    for path in dict.fromkeys((entry, unquote(entry))):
        for tail in _tails(_key(path.replace("\\", "/").strip())):
            if tail in by_key:
                return by_key[tail]
    return set()


def _same_folder(entry: str, file: str) -> bool:
    """Whether an entry that names a folder names that of `file`; `ant/1.jpg` does not mean `bee/1.jpg`."""
    named, there = (_key(unquote(path).replace("\\", "/").strip()).split("/")[:-1] for path in (entry, file))
    return not named or named[-1:] == there[-1:]


def _number(file: str) -> str:
    """A file's name without suffix and leading zeros, which spreadsheets drop."""
    return file.rpartition("/")[2].partition(".")[0].lstrip("0") or "0"


def _key(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


def _tails(path: str) -> Iterator[str]:
    """`a/b/c`, `b/c`, `c`."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    for start in range(len(parts)):
        yield "/".join(parts[start:])


def relative_paths(table: LabeledImages, folder: Path) -> list[str]:
    """Paths of the images relative to `folder`; of those that lie elsewhere, absolute.

    A path that a spreadsheet would take for a formula begins with `./`, which any reader understands.
    """
    root = folder.absolute()
    files = [table.file(row).absolute() for row in range(len(table))]
    paths = [f.relative_to(root).as_posix() if f.is_relative_to(root) else f.as_posix() for f in files]
    return [f"./{path}" if is_formula(path) else path for path in paths]
