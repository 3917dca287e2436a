"""What polars raises for Parquet files, of several kinds, as errors of the operating system or one line."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars

from lookalike.errors import FileError, first_line


@contextmanager
def polars_errors(file: Path) -> Iterator[None]:
    """Around a call that reads `file`.

    Raises:
        FileError: it is damaged.
    """
    try:
        yield
    except BaseException as error:  # a panic of its Rust code is no Exception
        if isinstance(error, polars.exceptions.PolarsError) or type(error).__name__ == "PanicException":
            raise FileError(f"{file} cannot be read: {first_line(error)}; write it again") from error
        raise


def write_parquet(frame: polars.DataFrame, file: Path) -> None:
    """Writes a table.

    Raises:
        OSError: there is no room, or the file cannot be written for another reason.
    """
    try:
        frame.write_parquet(file)
    except polars.exceptions.PolarsError as error:
        if code := re.search(r"os error (\d+)", str(error)):
            raise OSError(int(code[1]), os.strerror(int(code[1])), str(file)) from error
        raise
