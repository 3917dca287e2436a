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
