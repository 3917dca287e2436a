"""Scales 16-bit images to 8 bits by the range that their values really use.

Cameras store 10, 12 or 14 bits in 16-bit files; scaled by 65535 such images would be nearly black. Pillow has 16-bit
modes for gray alone and reads color by the high byte of each value, so where that shows a smaller range the low bytes
are read from the same file too.
"""

import sys
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from PIL import Image

PILImage = Image.Image

BITS = (8, 10, 12, 14, 16)
"""Bit depths that cameras store in 16-bit files; the smallest one that holds the largest value counts."""
GRAY16_MODES = ("I", "I;16", "I;16B", "I;16L", "I;16N")
OTHER_BYTE = {"16B": "16L", "16L": "16B", "16N": "16B" if sys.byteorder == "little" else "16L"}
GRAY_ALPHA = "LA;16B"
"""How PNG stores 16-bit gray with alpha: four bytes per pixel."""


def used_bits(largest: int) -> int:
    """The bit depth of values up to `largest`."""
    return next((bits for bits in BITS if largest < 1 << bits), 16)


def gray_bits(values: npt.NDArray[np.generic]) -> int:
    """How many bits the values of a 16-bit gray image use."""
    return used_bits(int(values.max(initial=0)))


def gray16_to_8(values: npt.NDArray[np.generic]) -> PILImage:
    """16-bit gray scaled to 8 bits: 12-bit values in a 16-bit file become 0..255 too.

    Raises:
        ValueError: values outside 0..65535.
    """
    gray = values.astype(np.int64)
    if gray.min(initial=0) < 0 or gray.max(initial=0) > 65535:
        raise ValueError("32-bit gray values outside 0..65535")
    return Image.fromarray((gray >> (gray_bits(gray) - 8)).astype(np.uint8))


def is_deep_color(image: PILImage) -> bool:
    """Whether an image that is open, but not loaded, has 16 bits per color value."""
    rawmode = _rawmode(image)
    return rawmode == GRAY_ALPHA or (
        rawmode.partition(";")[2] in OTHER_BYTE and rawmode.partition(";")[0] in ("RGB", "RGBX", "RGBA")
    )


def scale_deep_color(image: PILImage, reopen: Callable[[], PILImage]) -> tuple[PILImage, int]:
    """A loaded image of 16-bit color, of which Pillow read the high bytes, by its real range; and that range in bits.

    Args:
        reopen: opens the same file again.
    """
    bands = image.split()
    bits = _bits_of(bands[:3])
    depths = [bits] * 3 + [_bits_of(bands[3:])] * (len(bands) - 3)
    if min(depths) == 16:
        return image, bits
    again = reopen()
    if _rawmode(again) == GRAY_ALPHA:
        _set_rawmode(again, "RGBA")
        again.load()
        _, low, _, alpha_low = again.split()
        lows: tuple[PILImage, ...] = (low, low, low, alpha_low)
    else:
        kind, _, byte = _rawmode(again).partition(";")
        _set_rawmode(again, f"{kind};{OTHER_BYTE[byte]}")
        again.load()
        lows = again.split()
    scaled = [_scaled(*each) for each in zip(bands, lows, depths, strict=True)]
    return Image.merge(image.mode, scaled), bits


def _bits_of(high_bytes: tuple[PILImage, ...]) -> int:
    """The range in bits of values whose high bytes these are."""
    largest = max((int(np.asarray(band).max(initial=0)) for band in high_bytes), default=0)
    return used_bits((largest << 8) | 255 if largest else 255)


def _scaled(high: PILImage, low: PILImage, bits: int) -> PILImage:
    values = np.asarray(high).astype(np.uint16) << 8 | np.asarray(low)
    return Image.fromarray((values >> (bits - 8)).astype(np.uint8))


def _rawmode(image: PILImage) -> str:
    """How the decoder of an image that is not loaded reads a pixel; empty where it does not say."""
    tiles = getattr(image, "tile", None)
    if not tiles:
        return ""
    arguments = tiles[0][3]
    first = arguments[0] if isinstance(arguments, tuple) and arguments else arguments
    return first if isinstance(first, str) else ""


def _set_rawmode(image: PILImage, rawmode: str) -> None:
    tiles = []
    for tile in image.tile:  # type: ignore[attr-defined]
        arguments = (rawmode, *tile[3][1:]) if isinstance(tile[3], tuple) else rawmode
        tiles.append(tile._replace(args=arguments))
    image.tile = tiles  # type: ignore[attr-defined]
