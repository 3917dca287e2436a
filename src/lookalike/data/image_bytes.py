"""Images that come or go as bytes: from a file that is hashed and decoded in one read, from the network, to a page."""

import base64
import errno
import hashlib
import io
import os
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from lookalike.data.image_io import ImageError, PILImage, open_image
from lookalike.errors import DataError

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "MPO", "AVIF", "HEIF")
"""What may come from the network; whatever else Pillow reads may not."""


class TooManyPixelsError(DataError):
    """An image that would take too much memory to decode."""


def read_image(path: Path, *, box: Sequence[int] | None = None) -> tuple[str, PILImage]:
    """SHA-256 (hex) of a file's content, and the image that this very content holds.

    With a box it is the part of the image inside, and the hash is of the content and the box.

    Raises:
        DataError: not an image, or a damaged one; the message names the file.
        OSError: the file cannot be read.
    """
    if not path.is_file():  # to open a named pipe would wait for its writer
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    content = path.read_bytes()
    part = b"" if box is None else f"box {','.join(map(str, map(int, box)))}".encode()
    return hashlib.sha256(content + part).hexdigest(), open_image(path, box=box, content=content)


def check_upload(content: bytes, *, max_pixels: int) -> tuple[int, int]:
    """(width, height) from the header of an image that came from the network, before it is decoded.

    Raises:
        TooManyPixelsError: more than `max_pixels`.
        DataError: not an image, or of a format that is not in `FORMATS`.
    """
    try:
        with Image.open(io.BytesIO(content), formats=_known()) as image:
            width, height = image.size
    except Image.DecompressionBombError as error:
        raise TooManyPixelsError(f"the image has more than {max_pixels:,} pixels") from error
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError) as error:
        raise ImageError(
            "the upload is not an image of a known format (JPEG, PNG, WebP, GIF, BMP, TIFF)"
        ) from error
    if width * height > max_pixels:
        raise TooManyPixelsError(
            f"the image has {width} x {height} pixels; at most {max_pixels:,} are decoded"
        )
    return width, height


def _known() -> list[str]:
    Image.init()
    return [name for name in FORMATS if name in Image.OPEN]


def to_jpeg(image: PILImage, side: int, *, quality: int = 85) -> bytes:
    """A JPEG without metadata, its longest side at most `side`."""
    small = Image.new("RGB", image.size)
    small.paste(image)
    small.thumbnail((side, side), Image.Resampling.BICUBIC)
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def thumbnail_base64(path: str | Path, side: int = 96, *, box: Sequence[int] | None = None) -> str:
    """A small JPEG of the image (longest side `side`) as base64 text, for self-contained pages."""
    return base64.b64encode(
        to_jpeg(open_image(path, at_least=(side, side), box=box), side, quality=80)
    ).decode("ascii")
