"""Folders in the cache that are made once: whole or absent, by one process at a time."""

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from filelock import FileLock, Timeout

from lookalike.errors import FileError
from lookalike.utils.array_store import REMEDY
from lookalike.utils.cache_dir import cache_folder
from lookalike.utils.io import os_errors

PARTIAL = ".partial"


def folder_of(files: Iterable[tuple[Path, str]]) -> Path:
    """The folder in the cache for files, named by the SHA-256 of their contents, each with a word of its own.

    Raises:
        FileError: a file cannot be read.
    """
    sha = hashlib.sha256()
    for file, word in files:
        try:
            with open(file, "rb") as stream:
                sha.update(word.encode() + hashlib.file_digest(stream, "sha256").digest())
        except OSError as error:
            raise FileError(f"{file}: cannot be read ({error.strerror})") from error
    return cache_folder() / "archives" / sha.hexdigest()[:32]


def make_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Makes `folder` unless it is there: `fill` is given a temporary folder next to it, which is then renamed.

    Other processes that want the same folder wait. What killed processes left next to it is removed.

    Raises:
        FileError: the folder cannot be written.
    """
    if folder.is_dir():
        return
    home = folder.parent
    with os_errors("write to the cache", home, REMEDY):
        home.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(home)
        with FileLock(_lock(home, folder.name)):
            if folder.is_dir():  # another process was first
                return
            temporary = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", suffix=PARTIAL, dir=home))
            try:
                fill(temporary)
                temporary.chmod(home.stat().st_mode)  # `mkdtemp` makes it for this user alone
                temporary.rename(folder)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)


def _remove_leftovers(home: Path) -> None:
    for partial in home.glob(f"*{PARTIAL}"):
        with contextlib.suppress(Timeout), FileLock(_lock(home, partial.name.partition(".")[0]), timeout=0):
            shutil.rmtree(partial, ignore_errors=True)


def _lock(home: Path, name: str) -> Path:
    return home / f"{name}.lock"
