"""Files that are written whole or not at all, JSON, and operating-system errors as one line."""

import errno
import glob
import json
import math
import os
import platform
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from lookalike.errors import FileError
from lookalike.utils.cache_dir import inside_cache

CHECKSUM = "crc32"
"""The last key of a JSON file with a checksum of its other content."""
ARRAY_ERRORS = (
    ValueError,
    OSError,
    EOFError,
    LookupError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
)
"""What numpy raises for a damaged .npy or .npz file."""
TEMPORARY = ".{name}.{writer}.tmp"
"""A file that is being written; the writer is `HOST-PID`."""


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Calls `write` with a temporary name next to `path`, then renames the result to `path`.

    Whatever happens in between, `path` holds either what it held before or all of the new content. The file's
    mode follows the umask, whichever library wrote it. What a killed writer of `path` left is removed.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    temporary = temporary_name(path)
    try:
        temporary.touch()
        mode = temporary.stat().st_mode
        write(temporary)
        temporary.chmod(mode)
        os.replace(temporary, path)
    except OSError as error:
        if error.filename in (None, str(temporary)):
            error.filename = str(path)  # the name that a person gave
        raise
    finally:
        temporary.unlink(missing_ok=True)


def temporary_name(path: Path) -> Path:
    """Where this process writes what will be `path`."""
    return path.with_name(TEMPORARY.format(name=path.name, writer=f"{platform.node()}-{os.getpid()}"))


def reserve(stream: IO[bytes], size: int) -> None:
    """Takes `size` bytes of disk for an open file, so that a full disk is an error now, not after hours of work.

    Raises:
        OSError: there is not so much.
    """
    if hasattr(os, "posix_fallocate") and size > 0:
        stream.flush()
        os.posix_fallocate(stream.fileno(), 0, size)


def remove_temporaries(folder: Path) -> None:
    """Removes what killed writers left in `folder` and below, but nothing of another process that runs here.

    Such a process may have given back the folder's lock and write a report there.
    """
    for file in folder.rglob(TEMPORARY.format(name="*", writer="*")):
        before, _, pid = file.name.removesuffix(".tmp").rpartition("-")
        other = before.endswith(f".{platform.node()}") and pid.isdigit() and int(pid) != os.getpid()
        if os.name == "nt" or not (other and _is_running(int(pid))):
            file.unlink(missing_ok=True)


def _remove_abandoned(path: Path) -> None:
    """Removes what writers of `path` left that ran on this machine and are no more."""
    pattern = TEMPORARY.format(name=glob.escape(path.name), writer=f"{glob.escape(platform.node())}-*")
    for file in path.parent.glob(pattern):
        pid = file.name.removesuffix(".tmp").rpartition("-")[2]
        if pid.isdigit() and not _is_running(int(pid)):
            file.unlink(missing_ok=True)


def _is_running(pid: int) -> bool:
    if os.name == "nt":  # where signal 0 ends a process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8 text, whole or not at all; parts of names that are not UTF-8 are escaped."""
    write_atomically(path, lambda file: file.write_text(escape_surrogates(text), encoding="utf-8"))


def escape_surrogates(text: str) -> str:
    r"""`text` with bytes of names that are not UTF-8 as `\udce9`, which JSON reads back as they were."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def write_json(path: Path, value: Any) -> None:
    """Writes strict JSON, whole or not at all."""
    write_text(path, to_json(value, indent=2) + "\n")


def write_checked(path: Path, content: Mapping[str, object]) -> None:
    """Writes strict JSON as `write_json` does, with a checksum that `read_checked` compares."""
    write_json(path, {**content, CHECKSUM: crc32_of_text(to_json(content))})


def crc32_of_text(text: str) -> int:
    """The checksum of a text as `write_text` writes it."""
    return zlib.crc32(escape_surrogates(text).encode())


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Strict JSON, which any parser reads: a number that is NaN or infinite becomes null."""
    return json.dumps(_strict(value), indent=indent, ensure_ascii=False, allow_nan=False, default=_plain)


def _strict(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's, anything else as text."""
    return _strict(value.item()) if hasattr(value, "item") else str(value)


@contextmanager
def os_errors(doing: str, path: Path, remedy: str) -> Iterator[None]:
    """Turns operating-system errors into one that says what failed, where, and what to do.

    Raises:
        FileError: instead of any other OSError.
    """
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot {doing} '{path}': {error.strerror or error}; {remedy}") from error


def explain_os_error(error: OSError) -> str:
    """One line for an OSError that no part of the package expected: what, where, what to do."""
    where = f" '{os.fsdecode(error.filename)}'" if isinstance(error.filename, str | bytes) else ""
    remedy = {
        "ENOSPC": "free some space or write to another disk",
        "EDQUOT": "free some space or write to another disk",
        "EFBIG": "the limit on file sizes (ulimit -f) is too low",
        "EROFS": "name a folder that can be written",
        "EACCES": "change its permissions or name another place",
        "EPERM": "change its permissions or name another place",
        "EMFILE": "raise the limit on open files (ulimit -n) or set data.workers=0",
        "ENFILE": "raise the limit on open files or set data.workers=0",
        "ENOENT": "check that it exists",
        "EISDIR": "name a file",
    }.get(_code(error), "")
    parts = [f"{error.strerror or error}{where}", remedy]
    if isinstance(error.filename, str) and inside_cache(Path(error.filename)):
        parts.append("this is the cache; set LOOKALIKE_CACHE to move it")
    return "; ".join(part for part in parts if part)


def _code(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, "")


def read_json(path: Path) -> Any:
    """What a JSON file holds.

    Raises:
        FileError: it is missing or damaged.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise FileError(f"cannot read '{path}': {reason}") from error


def read_checked(path: Path) -> dict[str, Any]:
    """What `write_checked` wrote; content of earlier versions, without a checksum, is taken as it is.

    Raises:
        FileError: it is missing or damaged.
    """
    content = read_json(path)
    if not isinstance(content, dict) or not content:
        raise FileError(f"'{path}' is damaged: it holds no results")
    written = content.pop(CHECKSUM, None)
    if written is not None and written != crc32_of_text(to_json(content)):
        raise FileError(f"'{path}' is damaged: its checksum is not the one that was written")
    return content
