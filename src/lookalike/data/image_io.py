"""The only place that opens an image file: orientation, color modes and broken files are settled here.

Everything downstream sees upright 8-bit RGB. Training, evaluation, index and the web page all come through
`open_image`, so none of them can turn a photo of a phone another way.
"""

import base64
import io
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from lookalike.errors import DataError

PILImage = Image.Image


ORIENTATION = 0x0112


FILTERS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


class ImageError(DataError):
    """A file that cannot be opened as an image.

    Raised in a DataLoader's worker process it comes back wrapped in that process's traceback; only its own
    last line, which names the file, is kept.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message.rpartition(f"{type(self).__name__}: ")[2].strip())


def open_image(path: str | Path | io.BytesIO, *, at_least: tuple[int, int] | None = None) -> PILImage:
    """The image in `path`, upright, as 8-bit RGB.

    The EXIF orientation is applied; gray, palette, CMYK, 1-bit and 16-bit images are converted;
    transparency is blended on white; of several frames the first counts.

    Args:
        path: the file; its content decides the format, not its suffix. Or its content, which messages call
            `<bytes>`.
        at_least: (width, height) that suffices. A JPEG may then be decoded at 1/2, 1/4 or 1/8 of its size,
            never below `at_least`: several times faster for large photos, and not bit-identical to decoding
            in full. None decodes in full.

    Raises:
        DataError: not an image, truncated, or empty; the message names the file.
    """
    if isinstance(path, io.BytesIO):
        source: Path | io.BytesIO = path
        name = "<bytes>"
    else:
        source, name = Path(path), str(path)
    try:
        with Image.open(source) as image:
            return _decode(image, at_least)
    except FileNotFoundError as error:
        raise ImageError(f"{name}: no such file; correct the path or remove it from the data set") from error
    except UnidentifiedImageError as error:
        raise ImageError(f"{name}: {_why_unknown(source)}") from error
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise ImageError(f"{name}: cannot be decoded ({error}); replace or remove the file") from error


def image_size(path: str | Path) -> tuple[int, int]:
    """(width, height) of the upright image, read from the header without decoding the pixels.

    Raises:
        DataError: not an image; the message names the file.
    """
    try:
        with open(path, "rb") as stream, Image.open(stream) as image:
            if image.format == "TIFF":  # Pillow turns it while it decodes
                return _decode(image, None).size
            width, height = image.size
            sideways = image.getexif().get(ORIENTATION, 1) in (5, 6, 7, 8)
    except OSError as error:
        raise ImageError(
            f"{path}: cannot be read as an image ({error}); replace or remove the file"
        ) from error
    return (height, width) if sideways else (width, height)


def _decode(image: PILImage, at_least: tuple[int, int] | None) -> PILImage:
    jpeg = image.format in ("JPEG", "MPO")
    turned = False
    if not jpeg or "exif" in image.info:
        turned = image.getexif().get(ORIENTATION, 1) != 1
    if jpeg and at_least is not None:
        side = max(at_least)
        image.draft(None, (side, side) if turned else at_least)
    image.load()
    if turned:
        image = ImageOps.exif_transpose(image)
    return to_rgb(image)


def to_rgb(image: PILImage) -> PILImage:
    """An image of any mode as RGB: alpha blended on white, 16-bit gray scaled to 8.

    Raises:
        ValueError: a mode without a defined range, such as floats.
    """
    if image.mode == "RGB" and "transparency" not in image.info:
        image.load()
        return image
    if image.mode in ("I", "I;16", "I;16B", "I;16L"):
        gray = np.asarray(image).astype(np.int64)
        if gray.min() < 0 or gray.max() > 65535:
            raise ValueError("32-bit gray values outside 0..65535")
        return Image.fromarray((gray >> 8).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ValueError("floating-point pixels have no defined range; save the image with 8 or 16 bits")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        if image.mode in ("RGBa", "La"):
            image = image.convert({"RGBa": "RGBA", "La": "LA"}[image.mode])
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    return image.convert("RGB")


def _why_unknown(source: Path | io.BytesIO) -> str:
    head = (source.getvalue() if isinstance(source, io.BytesIO) else source.read_bytes())[:16]
    if not head:
        return "the file is empty; replace or remove it"
    if head[4:8] == b"ftyp" and head[8:12] in (b"heic", b"heix", b"mif1", b"msf1", b"hevc"):
        return "HEIC images cannot be read; convert them to JPEG"
    return f"not an image (it starts with {head[:8]!r}); replace or remove the file"


def to_tensor(image: PILImage, *, mirror: bool = False) -> Tensor:
    """An RGB image as uint8 (3, H, W), mirrored left to right on request; one copy."""
    pixels = np.asarray(image)
    if mirror:
        pixels = pixels[:, ::-1]
    return torch.from_numpy(np.array(pixels.transpose(2, 0, 1), order="C"))


def resized(
    image: PILImage, size: tuple[int, int], interpolation: str, box: tuple[int, int, int, int] | None = None
) -> PILImage:
    """`image` (or its pixels `box` = left, top, right, bottom) at (width, height), antialiased."""
    return image.resize(size, FILTERS[interpolation], box=box)


def to_thumbnail(image: PILImage, side: int) -> NDArray[np.float32]:
    """The image in gray, `side` x `side` whatever its proportions; each pixel an average of an area."""
    small = image.resize((side, side), Image.Resampling.BOX, reducing_gap=2.0).convert("L")
    return np.asarray(small, dtype=np.float32)


def thumbnail_base64(path: str | Path, side: int = 96) -> str:
    """A small JPEG of the image (longest side `side`) as base64 text, for self-contained pages."""
    image = open_image(path, at_least=(side, side)).copy()
    image.thumbnail((side, side), Image.Resampling.BICUBIC)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=80)
    return base64.b64encode(buffer.getvalue()).decode("ascii")
