"""Lists image files, and checks lists of files and counts: shared by all readers."""

import os
import stat
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from lookalike.data.dataset import natural_key
from lookalike.data.image_formats import image_suffixes, is_image_head
from lookalike.errors import DataError, FileError

SYSTEM_FILES = frozenset(
    {
        "thumbs.db",
        "ehthumbs.db",
        "desktop.ini",
        "icon\r",
        "@eadir",
        "#recycle",
        "$recycle.bin",
        "system volume information",
        "lost+found",
        "__macosx",
    }
)
NOT_SNIFFED = frozenset(
    {".csv", ".tsv", ".parquet", ".json", ".jsonl", ".ndjson", ".txt", ".md", ".rst", ".xml", ".yaml", ".yml"}
    | {".html", ".htm", ".py", ".mat", ".npy", ".npz", ".pdf", ".zip", ".tar", ".gz", ".tgz", ".xz", ".bz2"}
    | {".log", ".lock", ".partial", ".safetensors"}
    | {".cr2", ".cr3", ".nef", ".arw", ".dng", ".orf", ".rw2", ".raf", ".pef", ".srw"}
)
"""Suffixes of files that are taken for what they say, without a look inside; in a camera's raw file that looks like
a TIFF would be its small preview."""


@dataclass(frozen=True)
class ImageListing:
    """Image files below a folder: relative POSIX paths in natural order, and notes on what was left out."""

    paths: list[str]
    notes: tuple[str, ...]


class IncompleteError(DataError):
    """A published data set that lacks something; `share` of its published counts is there."""

    def __init__(self, message: str, share: float) -> None:
        super().__init__(message)
        self.share = share


def is_system_file(name: str) -> bool:
    """Whether a file or folder of this name is hidden, or left by an operating system."""
    return name.startswith(".") or name.casefold() in SYSTEM_FILES


def is_image(path: str | Path) -> bool:
    """By a suffix that is read, in any case; with another suffix or none, by the first bytes."""
    suffix = _suffix(path)
    if suffix in image_suffixes():
        return True
    if suffix in NOT_SNIFFED:
        return False
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with open(path, "rb") as stream:
            return is_image_head(stream.read(32))
    except OSError:
        return False


def list_images(folder: Path) -> ImageListing:
    """All images below `folder`; links are followed.

    Raises:
        FileError: a folder cannot be listed, or a link leads to a folder above it.
    """
    found: list[str] = []
    left_out: list[str] = []
    hidden: list[str] = []
    empty: list[str] = []
    in_cloud: list[str] = []
    real_of: dict[str, str] = {}
    reached: Counter[str] = Counter()

    top = os.path.join(folder, "")

    def complain(error: OSError) -> None:
        raise FileError(f"{error.filename}: cannot be listed ({error.strerror}); check its permissions")

    for at, folders, files in os.walk(folder, followlinks=True, onerror=complain):
        real = _real_path(at, real_of)
        _refuse_circle(at, real, real_of)
        real_of[at] = real
        reached[real] += 1
        inside = os.path.join(at, "")[len(top) :].replace(os.sep, "/")
        hidden += [
            inside + name for name in folders if name.startswith(".") and _hides_images(Path(at, name))
        ]
        in_cloud += [inside + name for name in files if name.endswith(".icloud")]
        folders[:] = [name for name in folders if not is_system_file(name)]
        before = len(found)
        for name in files:
            if is_system_file(name):
                continue
            if is_image(f"{at}/{name}"):
                found.append(inside + name)
            elif inside or _suffix(name) not in TABLES_AND_LISTS:
                left_out.append(inside + name)
        if len(found) == before and not folders and inside:
            empty.append(inside.removesuffix("/"))
    notes = [
        f"{what}: {len(paths):,}, first {min(paths)}"
        for what, paths in (
            ("hidden folders with images, left out", hidden),
            ("folders without an image", empty),
            ("images in iCloud alone, to be downloaded before they can be read", in_cloud),
        )
        if paths
    ]
    if left_out:
        kinds = Counter(_suffix(path) or "no suffix" for path in sorted(left_out)).most_common(6)
        listed = ", ".join(f"{suffix} {count:,}" for suffix, count in kinds)
        count = len(left_out)
        files_are = "file is not an image and was" if count == 1 else "files are not images and were"
        notes.insert(0, f"{count:,} {files_are} left out: {listed} (first {min(left_out)})")
    twice = [real for real, times in reached.items() if times > 1]
    if twice:
        notes.append(
            f"{len(twice):,} folders are reached through several links and are read under each name, first {twice[0]}"
        )
    return ImageListing(sorted(found, key=natural_key), tuple(notes))


def _hides_images(folder: Path) -> bool:
    """Whether a hidden folder holds images, by their suffixes; those of operating systems are not meant."""
    if folder.name.casefold() in (".thumbnails", ".trash"):
        return False
    try:
        return any(Path(name).suffix.lower() in image_suffixes() for name in os.listdir(folder))
    except OSError:
        return False


TABLES_AND_LISTS = frozenset(
    {".csv", ".tsv", ".parquet", ".jsonl", ".ndjson", ".txt", ".json", ".mat", ".md"}
)
"""Suffixes of files that often lie at the top of a data set and are not worth a note there."""


def images_below(folder: Path) -> list[str]:
    """The paths of `list_images`."""
    return list_images(folder).paths


def _suffix(path: str | Path) -> str:
    return os.path.splitext(path)[1].lower()


def _real_path(at: str, real_of: Mapping[str, str]) -> str:
    """`os.path.realpath` of a folder, of whose parent it is known already, mostly."""
    parent, name = os.path.split(at)
    if parent not in real_of or os.path.islink(at):
        return os.path.realpath(at)
    return os.path.join(real_of[parent], name)


def _refuse_circle(at: str, real: str, real_of: Mapping[str, str]) -> None:
    """Refuses a folder that is also one of those that lead to it."""
    above = os.path.dirname(at)
    while above in real_of:
        if real_of[above] == real:
            raise FileError(f"{at}: a link that leads back to {above}, which it lies in; remove the link")
        above = os.path.dirname(above)


def subfolders(folder: Path, most: int) -> list[Path]:
    """Up to `most` folders in `folder`, without those of the system."""
    entries = (entry for entry in folder.iterdir() if not is_system_file(entry.name) and entry.is_dir())
    return list(islice(entries, most))


def inside_single_folder(folder: Path) -> Path:
    """`folder`, or the only folder in it (again and again) as long as that one holds folders itself."""
    while True:
        entries = list(islice((entry for entry in folder.iterdir() if not is_system_file(entry.name)), 2))
        if len(entries) != 1 or not entries[0].is_dir():
            return folder
        if not any(e.is_dir() and not is_system_file(e.name) for e in entries[0].iterdir()):
            return folder
        folder = entries[0]


def missing_files(root: Path, paths: Sequence[str]) -> list[str]:
    """Those of `paths` that are not there; lists each folder once."""
    by_folder: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        by_folder[path.rpartition("/")[0]].append(path)
    missing: list[str] = []
    for at, entries in by_folder.items():
        try:
            there = set(os.listdir(root / at))
        except (OSError, ValueError):
            there = set()
        missing += [path for path in entries if path.rpartition("/")[2] not in there]
    return missing


def check_present(name: str, root: Path, paths: Sequence[str], remedy: str) -> None:
    """Refuses a list that names files which are not there.

    Raises:
        DataError: how many are missing, the first of them, and `remedy`.
    """
    missing = missing_files(root, paths)
    if missing:
        raise DataError(
            f"{name}: {len(missing):,} of {len(paths):,} images are missing below {root}, "
            f"first {missing[0]}; {remedy}"
        )


def check_counts(name: str, found: Mapping[str, int], published: Mapping[str, int]) -> None:
    """Refuses counts that differ from the published ones, naming each that does.

    Raises:
        IncompleteError: what was found, what was expected.
    """
    wrong = []
    share = min(
        min(found[what], expected) / max(found[what], expected, 1) for what, expected in published.items()
    )
    for what, expected in published.items():
        if found[what] != expected:
            short = expected - found[what]
            gap = f"{short:,} missing" if short > 0 else f"{-short:,} too many"
            wrong.append(f"{found[what]:,} {what} instead of {expected:,} ({gap})")
    if wrong:
        raise IncompleteError(
            f"{name}: {'; '.join(wrong)}; unpack the archive again, give --no-verify, or read it as plain folders "
            "with --layout folder",
            share,
        )


def read_lines(file: Path) -> list[tuple[int, str]]:
    """Lines of a UTF-8 text file without the empty ones, each with its number as an editor shows it.

    Raises:
        FileError: it cannot be read.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{file}: cannot be read as text ({error})") from error
    return [(at, line.strip()) for at, line in enumerate(text.splitlines(), start=1) if line.strip()]
