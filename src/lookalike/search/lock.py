"""The lock of an index: one process at a time changes it, any number read it."""

from pathlib import Path

from filelock import FileLock, Timeout

from lookalike.errors import FileError

LOCK = "writer.lock"


def lock_for_writing(folder: Path) -> FileLock:
    """The lock, held.

    Raises:
        FileError: another process holds it.
    """
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise FileError(
            f"another process is changing the index '{folder}'; wait until it is done (searching works meanwhile)"
        ) from None
    return lock
