"""Opens image files: the only place that does, for training, indexing, queries, checks and the web page.

Everything downstream gets upright 8-bit sRGB. Whatever is wrong with a file is an `ImageError` that names it.
"""

import io
import logging
import os
import stat
import struct
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image, JpegImagePlugin, UnidentifiedImageError

from lookalike.data.image_color import to_rgb
from lookalike.data.image_depth import GRAY16_MODES, gray_bits, is_deep_color, scale_deep_color
from lookalike.data.image_formats import image_formats, is_heif, why_unknown
from lookalike.data.image_repair import without_metadata
from lookalike.errors import DataError, MissingExtraError
from lookalike.utils.validation import optional_import

PILImage = Image.Image

warnings.filterwarnings("ignore", module=r"PIL\.")  # they name no file; what matters becomes an ImageError
logging.getLogger("PIL").setLevel(logging.CRITICAL)

ORIENTATION = 0x0112
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What turns an image of an EXIF orientation upright."""

MAX_PIXELS = 178_956_970
"""Larger images are not decoded (0.5 GB as RGB); Pillow refuses them too."""
REDUCE_FROM = 1 << 25
"""JPEGs of more pixels are decoded at 1/2, 1/4 or 1/8 of their size."""

UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    SyntaxError,
    LookupError,
    ArithmeticError,
    AttributeError,
    AssertionError,
    NotImplementedError,
    RuntimeError,
    MemoryError,  # a damaged header may announce anything
    Image.DecompressionBombError,
    struct.error,
    zlib.error,
)
"""Whatever Pillow's decoders raise for damaged files."""


@dataclass(frozen=True)
class DecodedImage:
    """An image, upright, as 8-bit sRGB, and facts of its file.

    Attributes:
        image: the pixels; smaller than `size` where a JPEG was decoded reduced.
        size: (width, height) of the upright image in the file.
        format, mode: Pillow's names of the file's format and color mode; with 16 bits per color value `;16` is added.
        orientation: the EXIF orientation, 1 to 8.
        has_profile: whether a color profile is embedded.
        animated: whether the file has further frames.
        bits: bits per value that a 16-bit image uses; 8 for other modes.
        repaired: whether the metadata is damaged and was left out.
    """

    image: PILImage
    size: tuple[int, int]
    format: str
    mode: str
    orientation: int
    has_profile: bool = False
    animated: bool = False
    bits: int = 8
    repaired: bool = False


class ImageError(DataError):
    """A file that cannot be opened as an image.

    Raised in a DataLoader's worker process it comes back wrapped in that process's traceback; only its own
    last line, which names the file, is kept.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message.rpartition(f"{type(self).__name__}: ")[2].strip())


def open_image(
    path: str | Path,
    *,
    at_least: tuple[int, int] | None = None,
    box: Sequence[int] | None = None,
    content: bytes | None = None,
) -> PILImage:
    """The image in `path`, upright, as 8-bit sRGB.

    The EXIF orientation and an embedded color profile are applied; gray, palette, CMYK, 1-bit and 16-bit
    images are converted; transparency is blended on white (on black where the motif itself is white); of
    several frames the first counts. Damaged metadata is ignored where the pixels are whole.

    Args:
        path: the file; its content decides the format, not its suffix.
        at_least: (width, height) that suffices. A JPEG may then be decoded at 1/2, 1/4 or 1/8 of its size,
            never below `at_least`: several times faster for large photos, and not bit-identical to decoding
            in full. None decodes in full, except JPEGs of more than `REDUCE_FROM` pixels.
        box: (left, top, right, bottom) of the part to return, in pixels of the whole upright image.
        content: of the file, where it was read already; `path` is then its name in messages.

    Raises:
        ImageError: not an image, truncated, empty or too large; the message names the file.
    """
    decoded = decode(path, at_least=at_least if box is None else None, content=content)
    return decoded.image if box is None else crop(decoded, box, path)


def crop(decoded: "DecodedImage", box: Sequence[int], path: str | Path) -> PILImage:
    """The part of an image inside `box`, in pixels of the whole upright image; `path` is its name in messages.

    Raises:
        ImageError: the box does not lie in the image.
    """
    width, height = decoded.size
    left, top, right, bottom = box
    if not (0 <= left < right <= width and 0 <= top < bottom <= height):
        raise ImageError(
            f"{path}: the box {tuple(map(int, box))} does not lie in the image of {width} x {height} pixels; "
            "correct x_1, y_1, x_2, y_2"
        )
    across, down = decoded.image.width / width, decoded.image.height / height
    return decoded.image.crop((round(left * across), round(top * down), *_end(box, across, down)))


def _end(box: Sequence[int], across: float, down: float) -> tuple[int, int]:
    left, top, right, bottom = box
    return max(round(right * across), round(left * across) + 1), max(
        round(bottom * down), round(top * down) + 1
    )


def image_size(path: str | Path) -> tuple[int, int]:
    """(width, height) of the upright image, read from the header where that suffices.

    Raises:
        ImageError: not an image; the message names the file.
    """
    try:
        with open(path, "rb") as stream, _opened(stream) as image:
            if image.format != "TIFF":  # Pillow turns a TIFF while it decodes
                width, height = image.size
                return (height, width) if _orientation(image) >= 5 else (width, height)
    except UNREADABLE:
        pass
    return decode(path).size


def _opened(stream: IO[bytes]) -> PILImage:
    """The image in `stream`, its header read; JPEGs of any size."""
    head = stream.read(16)
    stream.seek(0)
    if is_heif(head):
        optional_import("pillow_heif", "heif").register_heif_opener()
        return Image.open(stream)
    try:
        return Image.open(stream, formats=image_formats())
    except Image.DecompressionBombError:
        stream.seek(0)
        if head[:3] != b"\xff\xd8\xff":
            raise
        return JpegImagePlugin.JpegImageFile(stream)


def _reopened(stream: IO[bytes]) -> PILImage:
    stream.seek(0)
    return _opened(stream)


def decode(
    path: str | Path, *, at_least: tuple[int, int] | None = None, content: bytes | None = None
) -> DecodedImage:
    """The decoded image with the facts of its file; see `open_image`.

    Raises:
        ImageError: it cannot be decoded; the message names the file.
    """
    try:
        if content is None and not stat.S_ISREG(os.stat(path).st_mode):
            kind = "a folder" if os.path.isdir(path) else "no regular file"
            raise OSError(f"it is {kind}")  # opening a named pipe would wait for its writer
        with open(path, "rb") if content is None else io.BytesIO(content) as stream:
            try:
                with _opened(stream) as image:
                    return _decode(image, at_least, lambda: _reopened(stream))
            except UNREADABLE:
                stream.seek(0)
                repaired = without_metadata(stream)
                if repaired is None:
                    raise
            stream = io.BytesIO(repaired)
            with _opened(stream) as image:
                return replace(_decode(image, at_least, lambda: _reopened(stream)), repaired=True)
    except FileNotFoundError as error:
        link = f"a link to {os.readlink(path)}, which is gone" if os.path.islink(path) else "no such file"
        raise ImageError(f"{path}: {link}; correct the path or remove it from the data set") from error
    except MissingExtraError as error:
        raise ImageError(f"{path}: HEIC images are read with an extra package: {error}") from error
    except UnidentifiedImageError as error:
        head = Path(path).read_bytes()[:16] if content is None else content[:16]
        raise ImageError(f"{path}: {why_unknown(head)}") from error
    except Image.DecompressionBombError as error:
        raise ImageError(
            f"{path}: too large to decode, more than {MAX_PIXELS / 1e6:.0f} million pixels; scale it down"
        ) from error
    except UNREADABLE as error:
        why = " ".join(str(getattr(error, "strerror", None) or error).split()) or type(error).__name__
        raise ImageError(f"{path}: cannot be decoded ({why}); replace or remove the file") from error


def _decode(
    image: PILImage, at_least: tuple[int, int] | None, reopen: Callable[[], PILImage]
) -> DecodedImage:
    deep = is_deep_color(image)  # first, since to look for a PNG's orientation loads it
    orientation, whole = _orientation(image), image.size
    if image.format in ("JPEG", "MPO"):
        _draft(image, at_least, turned=orientation != 1)
    if image.width * image.height > MAX_PIXELS:
        raise Image.DecompressionBombError
    facts = DecodedImage(
        image,
        whole,
        str(image.format),
        image.mode,
        orientation,
        has_profile=bool(image.info.get("icc_profile")),
        animated=bool(getattr(image, "is_animated", False)),
    )
    image.load()
    bits = gray_bits(np.asarray(image)) if image.mode in GRAY16_MODES else 8
    if deep:
        deeper, bits = scale_deep_color(image, reopen)
        facts = replace(facts, mode=f"{image.mode};16")
        deeper.info = image.info
        image = deeper
    rgb = to_rgb(image)
    if facts.format == "TIFF":  # Pillow turned it upright while it decoded
        return replace(facts, image=rgb, size=image.size, bits=bits)
    if orientation in UPRIGHT:
        rgb = rgb.transpose(UPRIGHT[orientation])
    size = (whole[1], whole[0]) if orientation >= 5 else whole
    return replace(facts, image=rgb, size=size, bits=bits)


def _draft(image: PILImage, at_least: tuple[int, int] | None, *, turned: bool) -> None:
    """Lets a JPEG be decoded at 1/2, 1/4 or 1/8 of its size."""
    if at_least is not None:
        side = max(at_least)
        image.draft(None, (side, side) if turned else at_least)
        return
    width, height = image.size
    times = next((t for t in (1, 2, 4) if width * height <= REDUCE_FROM * t * t), 8)
    if times > 1:
        image.draft(None, (-(-width // times), -(-height // times)))


def _orientation(image: PILImage) -> int:
    """The EXIF orientation, 1 to 8; 1 where there is none, or none that can be read."""
    if image.format in ("JPEG", "MPO") and "exif" not in image.info:
        return 1
    try:
        orientation = image.getexif().get(ORIENTATION, 1)
    except UNREADABLE:
        return 1
    return orientation if isinstance(orientation, int) and orientation in UPRIGHT else 1
