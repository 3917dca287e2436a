"""Arrays on disk under a key that holds everything that decides their numbers.

An entry is two files: `<hash of the key>.npy`, opened memory-mapped, and `<hash>.json` with the key and a checksum.
The JSON is written last, so an entry is whole or absent. A lock per entry makes a second process wait for the
one that computes it. The file time of the JSON says when an entry was last used.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.lib import format as npy
from numpy.typing import NDArray

from lookalike.errors import FileError
from lookalike.utils.cache_dir import format_size
from lookalike.utils.hashing import checksum
from lookalike.utils.io import TEMPORARY, os_errors, read_json, temporary_name, to_json, write_json

REMEDY = "free space or set LOOKALIKE_CACHE to another folder"


@dataclass(frozen=True)
class Entry:
    """One array of a store; `used` is the time of its last use, in seconds since 1970."""

    name: str
    size: int
    used: float
    about: str


class ArrayStore:
    """Arrays by key in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: dict[str, Any]) -> Path:
        """The file of the array that `key` names."""
        text = to_json(dict(sorted(key.items())))
        return self.folder / f"{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}.npy"

    def has(self, key: dict[str, Any]) -> bool:
        """Whether there is a whole array; its content is not read."""
        path = self.path(key)
        return path.exists() and path.with_suffix(".json").exists()

    def is_intact(self, key: dict[str, Any]) -> bool:
        """Whether the array's bytes are those that were written; reads the whole file."""
        path = self.path(key)
        try:
            facts = read_json(path.with_suffix(".json"))
            return bool(facts["bytes"] == path.stat().st_size and facts["crc32"] == checksum(path))
        except (OSError, KeyError, TypeError):
            return False

    def open(self, key: dict[str, Any]) -> NDArray[Any]:
        """The array, memory-mapped.

        Raises:
            FileError: it is not there or cannot be read.
        """
        path = self.path(key)
        with suppress(OSError):
            os.utime(path.with_suffix(".json"))
        try:
            array: NDArray[Any] = np.load(path, mmap_mode="r")
        except (OSError, ValueError) as error:
            raise FileError(f"cannot read '{path}': {error}; clear it with: lookalike cache clear") from error
        return array.view(np.ndarray)  # indexing an np.memmap calls __array_finalize__ each time

    @contextmanager
    def locked(self, key: dict[str, Any], on_wait: Callable[[], None]) -> Iterator[None]:
        """Holds the entry's lock; calls `on_wait` once when another process has it, and waits."""
        with os_errors("write to the cache", self.folder, REMEDY):
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path(key).with_suffix(".lock"))
            try:
                lock.acquire(timeout=1)
            except Timeout:
                on_wait()
                lock.acquire()
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def writing(
        self, key: dict[str, Any], *, rows: int, dtype: Any, about: str
    ) -> Iterator[Callable[[NDArray[Any]], None]]:
        """A function that appends a block of rows to a new array of `rows` rows; the caller holds the entry's lock.

        The entry is there when the context ends without an error.
        """
        path = self.path(key)
        temporary = temporary_name(path)
        written = 0

        def append(block: NDArray[Any]) -> None:
            nonlocal written
            if written == 0:
                npy.write_array_header_2_0(stream, _header(dtype, (rows, *block.shape[1:])))
            stream.write(np.ascontiguousarray(block, dtype=dtype).tobytes())
            written += len(block)

        try:
            with temporary.open("wb") as stream:
                yield append
            os.replace(temporary, path)
            facts = {"bytes": path.stat().st_size, "crc32": checksum(path), "about": about, "key": key}
            write_json(path.with_suffix(".json"), facts)
        except OSError as error:
            if isinstance(error, FileError):
                raise
            raise FileError(
                f"cannot write the cache '{path}' after {written} of {rows} rows: {error.strerror or error}; {REMEDY}"
            ) from error
        finally:
            temporary.unlink(missing_ok=True)

    def entries(self) -> list[Entry]:
        """All whole arrays, the least recently used first."""
        found = []
        # unlike glob, listdir raises where listing is not allowed
        names = os.listdir(self.folder) if self.folder.is_dir() else []
        for file in (self.folder / name for name in names if name.endswith(".json")):
            with suppress(OSError):
                size = file.with_suffix(".npy").stat().st_size
                found.append(Entry(file.stem, size, file.stat().st_mtime, _about(file)))
        return sorted(found, key=lambda entry: entry.used)

    def shrink(self, limit: int, keep: Iterable[Path] = ()) -> list[Entry]:
        """Removes arrays, the least recently used first, until all take at most `limit` bytes; returns them."""
        kept, removed = {path.stem for path in keep}, []
        entries = self.entries()
        total = sum(entry.size for entry in entries)
        for entry in entries:
            if total <= limit:
                break
            if entry.name not in kept:
                self._remove(entry.name)
                removed.append(entry)
                total -= entry.size
        return removed

    def remove_leftovers(self) -> int:
        """Removes files of entries that no process is writing and none has finished; returns the bytes freed."""
        freed = 0
        pattern = TEMPORARY.format(name="*", writer="*")
        for file in [*self.folder.glob(pattern), *self.folder.glob("*.npy")]:
            name = file.name.lstrip(".").split(".")[0]
            if file.suffix == ".npy" and file.with_suffix(".json").exists():
                continue
            with suppress(OSError, Timeout), FileLock(self.folder / f"{name}.lock", timeout=0):
                if file.suffix == ".tmp" or not file.with_suffix(".json").exists():
                    freed += file.stat().st_size
                    file.unlink()
        return freed

    def _remove(self, name: str) -> None:
        with os_errors("remove from the cache", self.folder / name, "check its permissions"):
            for suffix in (".json", ".npy", ".lock"):
                (self.folder / f"{name}{suffix}").unlink(missing_ok=True)


def describe(entry: Entry) -> list[str]:
    """Size, last use and content of an entry, for people."""
    used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
    return [entry.name[:12], format_size(entry.size), used, entry.about]


def _header(dtype: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    return {"descr": npy.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}


def _about(file: Path) -> str:
    try:
        return str(read_json(file).get("about", ""))
    except (FileError, AttributeError):
        return "damaged"
