"""Decoded images at another size: resized, and small gray ones to compare."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

PILImage = Image.Image

FILTERS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


def resize(
    image: PILImage, size: tuple[int, int], interpolation: str, box: tuple[int, int, int, int] | None = None
) -> PILImage:
    """`image` (or its pixels `box` = left, top, right, bottom) at (width, height), antialiased."""
    return image.resize(size, FILTERS[interpolation], box=box)


def to_thumbnail(image: PILImage, side: int) -> NDArray[np.float32]:
    """The image in gray, `side` x `side` whatever its proportions; each pixel an average of an area."""
    small = image.resize((side, side), Image.Resampling.BOX, reducing_gap=2.0).convert("L")
    return np.asarray(small, dtype=np.float32)
