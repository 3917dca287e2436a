"""The image formats that are read: their suffixes and their first bytes."""

import functools

from PIL import Image

NOT_IMAGES = frozenset({"BUFR", "EPS", "FITS", "GRIB", "HDF5", "IPTC", "MPEG", "WMF", "XVTHUMB", "MCIDAS"})
"""Formats that Pillow lists but cannot decode here, or decodes by running another program."""
MAGIC = (
    b"\xff\xd8\xff",
    b"\x89PNG\r\n",
    b"GIF8",
    b"BM",
    b"II*\x00",
    b"MM\x00*",
    b"II+\x00",
    b"MM\x00+",
    b"\x00\x00\x00\x0cjP  ",
    b"\xff\x4f\xff\x51",
    b"8BPS",
    b"DDS ",
    b"qoif",
)
"""First bytes of image files."""
OTHERS = (
    (b"version https:/", "a pointer of Git LFS, not the image itself; fetch the images with: git lfs pull"),
    (b"<!DOCTYPE", "a web page, as a failed download leaves; fetch the image again"),
    (b"<!doctype", "a web page, as a failed download leaves; fetch the image again"),
    (b"<html", "a web page, as a failed download leaves; fetch the image again"),
    (b"%PDF", "a PDF document, not an image; save its pages as images"),
    (b"%!PS", "a PostScript drawing, not an image; save it as PNG"),
    (b"<svg", "a drawing (SVG), not an image; save it as PNG"),
    (b"\xff\x0a", "JPEG XL, which is not read; save it as JPEG or PNG"),
    (b"\x00\x00\x00\x0cJXL ", "JPEG XL, which is not read; save it as JPEG or PNG"),
    (b"II\xbc\x01", "JPEG XR, which is not read; save it as JPEG or PNG"),
)
"""First bytes of files that often stand where an image should be, and what to do."""
HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")


@functools.cache
def image_suffixes() -> frozenset[str]:
    """Suffixes, in lower case with the dot, of the formats that are read."""
    Image.init()
    known = {suffix for suffix, name in Image.registered_extensions().items() if name in image_formats()}
    return frozenset(known | {".heic", ".heif", ".hif", ".jfif"})


@functools.cache
def image_formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in Image.ID if name not in NOT_IMAGES)


def is_image_head(head: bytes) -> bool:
    """Whether the first bytes of a file are those of an image format."""
    webp = head[:4] == b"RIFF" and head[8:12] == b"WEBP"
    netpbm = head[:1] == b"P" and head[1:2] in b"123456" and head[2:3].isspace()
    avif = head[4:8] == b"ftyp" and head[8:12] in (b"avif", b"avis")
    return head.startswith(MAGIC) or webp or netpbm or avif or is_heif(head)


def is_heif(head: bytes) -> bool:
    return head[4:8] == b"ftyp" and head[8:12] in HEIF_BRANDS


def why_unknown(head: bytes) -> str:
    """Why a file with these first bytes is not read, and what to do."""
    if not head:
        return "the file is empty; replace or remove it"
    if is_image_head(head):
        return (
            "a damaged image, its header cannot be read, or of a kind that is not decoded, such as JPEG of 12 bits; "
            "replace or remove the file"
        )
    if head[4:8] == b"ftyp":
        return "a video, not an image; save its frames as images"
    other = next((why for start, why in OTHERS if head.startswith(start)), None)
    return other or f"not an image (it starts with {head[:8]!r}); replace or remove the file"
