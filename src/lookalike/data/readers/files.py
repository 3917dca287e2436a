"""Finding images on disk, and telling what is missing: shared by all readers."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from lookalike.data.dataset import natural_key
from lookalike.errors import DataError, FileError

COMMON_SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp")
OTHER_SUFFIXES = (".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".avif", ".heic", ".heif")
IMAGE_SUFFIXES = frozenset({*COMMON_SUFFIXES, *OTHER_SUFFIXES})
LITTER = frozenset({"thumbs.db", "desktop.ini", "@eadir", "__macosx"})
MAGIC = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8", b"BM", b"II*\x00", b"MM\x00*")


def is_litter(name: str) -> bool:
    """Whether a file or folder of this name was left by an operating system, or is hidden."""
    return name.startswith(".") or name.casefold() in LITTER


def is_image(path: Path) -> bool:
    """By its suffix in any case; without a suffix, by its first bytes."""
    suffix = path.suffix.lower()
    if suffix in IMAGE_SUFFIXES:
        return True
    if suffix:
        return False
    try:
        with open(path, "rb") as stream:
            head = stream.read(12)
    except OSError:
        return False
    return head.startswith(MAGIC) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")


def images_below(folder: Path) -> list[str]:
    """Relative POSIX paths of all images below `folder`, in natural order.

    Raises:
        FileError: the folder cannot be listed, or links lead in a circle.
    """
    found: list[str] = []
    seen: set[str] = set()

    def complain(error: OSError) -> None:
        raise FileError(f"{error.filename}: cannot be listed ({error.strerror}); check its permissions")

    for at, folders, files in os.walk(folder, followlinks=True, onerror=complain):
        real = os.path.realpath(at)
        if real in seen:
            raise FileError(f"{at}: reached twice through links; remove the link that leads there")
        seen.add(real)
        folders[:] = [name for name in folders if not is_litter(name)]
        here = Path(at)
        relative = here.relative_to(folder)
        found += [(relative / n).as_posix() for n in files if not is_litter(n) and is_image(here / n)]
    return sorted(found, key=natural_key)


def inside_single_folder(folder: Path) -> Path:
    """`folder`, or the only folder in it (again and again) as long as that one holds folders itself."""
    while True:
        entries = [entry for entry in folder.iterdir() if not is_litter(entry.name)]
        if len(entries) != 1 or not entries[0].is_dir():
            return folder
        if not any(e.is_dir() and not is_litter(e.name) for e in entries[0].iterdir()):
            return folder
        folder = entries[0]


def check_present(name: str, root: Path, paths: Sequence[str], remedy: str) -> None:
    """Refuses a list that names files which are not there; lists each folder once.

    Raises:
        DataError: how many are missing, the first of them, and `remedy`.
    """
    by_folder: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        at, _, file = path.rpartition("/")
        by_folder[at].append(file)
    missing: list[str] = []
    for at, files in by_folder.items():
        try:
            there = set(os.listdir(root / at))
        except OSError:
            there = set()
        missing += [f"{at}/{file}".lstrip("/") if at else file for file in files if file not in there]
    if missing:
        raise DataError(
            f"{name}: {len(missing):,} of {len(paths):,} images are missing below {root}, "
            f"first {missing[0]}; {remedy}"
        )


def check_counts(name: str, found: Mapping[str, int], published: Mapping[str, int]) -> None:
    """Refuses counts that differ from the published ones, naming each that does.

    Raises:
        DataError: what was found, what was expected.
    """
    wrong = []
    for what, expected in published.items():
        if found[what] != expected:
            short = expected - found[what]
            gap = f"{short:,} missing" if short > 0 else f"{-short:,} too many"
            wrong.append(f"{found[what]:,} {what} instead of {expected:,} ({gap})")
    if wrong:
        raise DataError(f"{name}: {'; '.join(wrong)}; unpack the archive again, or read it with verify=False")


def read_lines(file: Path) -> list[str]:
    """Lines of a UTF-8 text file without the empty ones.

    Raises:
        FileError: it cannot be read.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{file}: cannot be read as text ({error})") from error
    return [line.strip() for line in text.splitlines() if line.strip()]
