"""Images that come as bytes: from a file that is hashed and decoded in one read, or from the network."""

import hashlib
import io
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from lookalike.data.image_io import ImageError, PILImage, open_image
from lookalike.errors import DataError

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "MPO", "AVIF", "HEIF")
"""What may come from the network; whatever else Pillow reads may not."""


class TooManyPixelsError(DataError):
    """An image that would take too much memory to decode."""


def read_image(path: Path, *, at_least: tuple[int, int] | None = None) -> tuple[str, PILImage]:
    """SHA-256 (hex) of a file's content, and the image that this very content holds.

    Raises:
        DataError: not an image, or a damaged one; the message names the file.
        OSError: the file cannot be read.
    """
    content = path.read_bytes()
    return digest_of(content), decode_image(content, str(path), at_least=at_least)


def digest_of(content: bytes) -> str:
    """SHA-256 of a file's content, in hex."""
    return hashlib.sha256(content).hexdigest()


def decode_image(content: bytes, name: str, *, at_least: tuple[int, int] | None = None) -> PILImage:
    """`open_image` of a file's content; `name` stands in messages.

    Raises:
        DataError: not an image, or a damaged one.
    """
    if not content:
        raise ImageError(f"{name}: the file is empty; replace or remove it")
    try:
        return open_image(io.BytesIO(content), at_least=at_least)
    except DataError as error:
        raise ImageError(str(error).replace("<bytes>", name)) from error


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
