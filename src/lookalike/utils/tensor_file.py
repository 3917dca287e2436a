"""Tensors in a safetensors file: written whole or not at all, every failure a `FileError`."""

import zlib
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save_file
from torch import Tensor

from lookalike.errors import FileError
from lookalike.utils.hashing import checksum
from lookalike.utils.io import os_errors, write_atomically

REMEDY = "free space or write to another folder"


def save_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Writes tensors (contiguous, none sharing memory with another).

    Raises:
        FileError: the file cannot be written.
    """

    def write(file: Path) -> None:
        try:
            save_file(tensors, file, metadata=metadata)
        except SafetensorError as error:
            raise FileError(f"cannot write '{path}': {error}; {REMEDY}") from error

    with os_errors("write", path, REMEDY):
        write_atomically(path, write)


def load_tensors(path: Path, *, crc32: int | None = None) -> dict[str, Tensor]:
    """The tensors of a file, on the CPU.

    Args:
        crc32: refuses a file with another checksum.

    Raises:
        FileError: the file is missing or damaged.
    """
    try:
        content = path.read_bytes()
        if crc32 is not None and zlib.crc32(content) != crc32:
            raise FileError(f"'{path}' is damaged: its checksum is not the one that was written")
        return load(content)
    except (OSError, SafetensorError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot read '{path}': {error}") from error


def load_rows(path: Path, rows: slice, *, crc32: int) -> dict[str, Tensor]:
    """Some rows of every tensor of a file, on the CPU; the others are not held in memory.

    Args:
        crc32: refuses a file with another checksum.

    Raises:
        FileError: the file is missing or damaged.
    """
    try:
        if checksum(path) != crc32:
            raise FileError(f"'{path}' is damaged: its checksum is not the one that was written")
        with safe_open(path, framework="pt") as file:
            return {name: file.get_slice(name)[rows] for name in file.keys()}  # noqa: SIM118 - no dict
    except (OSError, SafetensorError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot read '{path}': {error}") from error
