"""Damaged Parquet files, for which polars raises errors of several kinds, as one line."""

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
