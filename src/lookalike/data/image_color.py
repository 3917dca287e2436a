"""Converts decoded images of any mode to 8-bit sRGB."""

import functools
import io

import numpy as np
from PIL import Image, ImageCms

from lookalike.data.image_depth import GRAY16_MODES, gray16_to_8

PILImage = Image.Image

VISIBLE, CONTRAST, ENOUGH = 128, 24, 0.01
"""A motif vanishes on white if less than ENOUGH of its pixels of alpha >= VISIBLE differ from white by CONTRAST."""
ALPHA_MODES = ("RGBA", "LA", "PA", "RGBa", "La")


def to_rgb(image: PILImage) -> PILImage:
    """An image of any mode as 8-bit sRGB.

    Alpha is blended on white, or on black where the motif is white itself. 16-bit gray is scaled by the bit
    depth that its values use. An embedded color profile other than sRGB is applied; a damaged one is ignored.

    Raises:
        ValueError: values without a defined range, such as floats beyond 0..255.
    """
    profile = image.info.get("icc_profile")
    if image.mode in GRAY16_MODES:
        return gray16_to_8(np.asarray(image)).convert("RGB")
    if image.mode == "F":
        return _float_to_8(np.asarray(image)).convert("RGB")
    if image.mode in ALPHA_MODES or "transparency" in image.info:
        if image.mode in ("RGBa", "La"):
            image = image.convert({"RGBa": "RGBA", "La": "LA"}[image.mode])
        rgba = image.convert("RGBA")
        color = _apply_profile(rgba.convert("RGB"), profile)
        return _blend(color, rgba.getchannel("A"))
    if image.mode == "P":
        image = image.convert("RGB")
    return _apply_profile(image, profile)


def _float_to_8(values: np.ndarray) -> PILImage:
    low, high = float(values.min(initial=0)), float(values.max(initial=0))
    if not (low >= 0 and high <= 255):
        raise ValueError(
            f"floating-point pixels from {low:g} to {high:g} have no defined range; "
            "save the image with 8 or 16 bits"
        )
    scaled = values * (255 if high <= 1 else 1)
    return Image.fromarray(np.rint(scaled).astype(np.uint8))


def _blend(color: PILImage, alpha: PILImage) -> PILImage:
    """`color` on white by `alpha`, or on black where next to nothing would be seen on white."""
    rgba = color.copy()
    rgba.putalpha(alpha)
    ground = "black" if _vanishes_on_white(color, alpha) else "white"
    return Image.alpha_composite(Image.new("RGBA", rgba.size, ground), rgba).convert("RGB")


def _vanishes_on_white(color: PILImage, alpha: PILImage) -> bool:
    least, _ = alpha.getextrema()
    if least == 255:  # opaque: white paper is white
        return False
    seen = np.asarray(alpha) >= VISIBLE
    if not seen.any():
        return False
    darkest = np.asarray(color).min(axis=2)[seen]
    return bool((darkest <= 255 - CONTRAST).mean() < ENOUGH)


def _apply_profile(image: PILImage, profile: bytes | None) -> PILImage:
    """`image` (gray, RGB, CMYK, ...) as RGB, by its profile if that can be used."""
    if profile:
        try:
            transform = _to_srgb(profile, image.mode)
            if transform is not None:
                converted = ImageCms.applyTransform(image, transform)
                assert converted is not None
                return converted
        except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
            pass  # the pixels are whole: a damaged or mismatched profile changes nothing
    return image.convert("RGB")


@functools.lru_cache(maxsize=32)
def _to_srgb(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    """The transform from a profile to sRGB; None where it is sRGB already, or for images of another kind."""
    source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    kind = {"RGB": "RGB", "L": "GRAY", "CMYK": "CMYK"}.get(mode)
    if kind is None or source.profile.xcolor_space.strip() != kind:
        return None
    if kind == "RGB" and "srgb" in ImageCms.getProfileDescription(source).casefold():
        return None
    return ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")
