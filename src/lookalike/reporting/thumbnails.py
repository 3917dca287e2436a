"""Thumbnails for pages: small JPEGs as base64 text, a gray dot for a file that is gone or broken."""

from collections.abc import Sequence
from pathlib import Path

from lookalike.data.dataset import LabeledImages
from lookalike.data.image_bytes import thumbnail_base64
from lookalike.errors import DataError, FileError

GRAY_DOT = "R0lGODlhAQABAIAAAMzMzAAAACH5BAAAAAAALAAAAAABAAEAAAICRAEAOw=="


def draw_thumbnail(file: Path | str, side: int, *, box: Sequence[int] | None = None) -> str:
    """The image with its longest side `side`."""
    try:
        return thumbnail_base64(file, side, box=box)
    except (DataError, FileError):
        return GRAY_DOT


def draw_row(table: LabeledImages, row: int, side: int) -> str:
    """The part of a data set's image that counts."""
    return draw_thumbnail(table.file(row), side, box=table.box(row))
