"""Small image files of every format and every kind of damage, made in memory."""

import io
import struct
import zlib

import numpy as np
from PIL import Image

SIZE = (24, 16)
FORMATS = {
    "jpg": "JPEG",
    "png": "PNG",
    "webp": "WEBP",
    "tiff": "TIFF",
    "bmp": "BMP",
    "gif": "GIF",
    "avif": "AVIF",
    "jp2": "JPEG2000",
    "ppm": "PPM",
    "tga": "TGA",
    "ico": "ICO",
    "qoi": "QOI",
    "pcx": "PCX",
    "sgi": "SGI",
    "dds": "DDS",
}


def pattern(size=SIZE, seed=0) -> Image.Image:
    """Colored blocks that survive lossy compression."""
    blocks = np.random.default_rng(seed).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    return Image.fromarray(blocks).resize(size, Image.Resampling.NEAREST)


def encoded(kind: str, image: Image.Image | None = None, **options) -> bytes:
    """The image in the format of a suffix."""
    buffer = io.BytesIO()
    if kind == "heic":
        import pillow_heif

        pillow_heif.from_pillow(image or pattern()).save(buffer, quality=80)
    else:
        (image or pattern()).save(buffer, FORMATS[kind], **options)
    return buffer.getvalue()


def chunk(kind: bytes, data: bytes, *, right: bool = True) -> bytes:
    """A PNG chunk, with a wrong checksum on request."""
    check = zlib.crc32(kind + data) ^ (0 if right else 1)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)


def deep_png(values: np.ndarray) -> bytes:
    """A PNG of 16 bits per value, (H, W, 2) for gray and alpha, 3 for RGB, 4 for RGBA."""
    height, width, bands = values.shape
    header = struct.pack(">IIBBBBB", width, height, 16, {2: 4, 3: 2, 4: 6}[bands], 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def deep_tiff(values: np.ndarray, order: str, *, deflated: bool = False) -> bytes:
    """A TIFF of 16 bits per value, RGB or RGBA, in byte order `<` or `>`."""
    height, width, bands = values.shape
    pixels = values.astype(f"{order}u2").tobytes()
    pixels = zlib.compress(pixels) if deflated else pixels
    entries = 12 if bands == 4 else 11
    extra = 8 + 2 + 12 * entries + 4
    tags = [
        (256, 3, 1, width),
        (257, 3, 1, height),
        (258, 3, bands, extra),
        (259, 3, 1, 8 if deflated else 1),
        (262, 3, 1, 2),
        (273, 4, 1, extra + 16),
        (277, 3, 1, bands),
        (278, 4, 1, height),
        (279, 4, 1, len(pixels)),
        (284, 3, 1, 1),
        (339, 3, 1, 1),
    ]
    tags += [(338, 3, 1, 2)] if bands == 4 else []
    packed = b""
    for tag, kind, count, value in sorted(tags):
        short = kind == 3 and count == 1
        packed += struct.pack(f"{order}HHI", tag, kind, count)
        packed += struct.pack(f"{order}HH" if short else f"{order}I", *((value, 0) if short else (value,)))
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}IH", 8, entries)
    depths = struct.pack(f"{order}4H", 16, 16, 16, 16).ljust(16, b"\0")
    return head + packed + struct.pack(f"{order}I", 0) + depths + pixels


def png_with(*chunks: bytes) -> bytes:
    """A PNG with further chunks in front of its pixels."""
    data = encoded("png")
    at = data.index(b"IDAT") - 4
    return data[:at] + b"".join(chunks) + data[at:]


def jpeg_with(*segments: tuple[int, bytes]) -> bytes:
    """A JPEG with further application segments at its start."""
    data = encoded("jpg")
    extra = b"".join(struct.pack(">BBH", 0xFF, kind, len(body) + 2) + body for kind, body in segments)
    return data[:2] + extra + data[2:]


def png_header(width: int, height: int) -> bytes:
    """A PNG that announces a size and has no pixels to speak of."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0"))
        + chunk(b"IEND", b"")
    )


EXIF_HEAD = b"Exif\0\0II*\0\x08\0\0\0"

WHOLE = {
    **{f"plain.{kind}": encoded(kind) for kind in FORMATS},
    "no_suffix": encoded("png"),
    "wrong_suffix.png": encoded("jpg"),
    "browser.jpg_large": encoded("jpg"),
    "download.jpg.1": encoded("jpg"),
    "exif_is_none.png": png_with(chunk(b"eXIf", b"\x00\x08\x00\x02\x01\x12\x00\x03")),
    "large_text.png": png_with(chunk(b"zTXt", b"workflow\0\0" + zlib.compress(b"node " * 400_000))),
    "damaged_text.png": png_with(chunk(b"tEXt", b"a\0b", right=False)),
    "large_profile.png": png_with(chunk(b"iCCP", b"p\0\0" + zlib.compress(b"0" * 2_000_000))),
    "short_exif.jpg": jpeg_with(
        (0xE1, EXIF_HEAD + struct.pack("<H", 3) + struct.pack("<HHII", 0x112, 3, 1, 1))
    ),
    "odd_profile.jpg": jpeg_with((0xE2, b"ICC_PROFILE\0\x01\x01" + b"junk" * 20)),
    "odd_photoshop.jpg": jpeg_with((0xED, b"Photoshop 3.0\0" + b"8BIM" * 9)),
    "gray.png": encoded("png", pattern().convert("L")),
    "palette.gif": encoded("gif", pattern().convert("P")),
    "cmyk.jpg": encoded("jpg", pattern().convert("CMYK")),
    "alpha.webp": encoded("webp", pattern().convert("RGBA")),
    "bilevel.tiff": encoded("tiff", pattern().convert("1")),
    "one_pixel.png": encoded("png", pattern((1, 1))),
    "line.png": encoded("png", pattern((3000, 1))),
}
"""Files whose pixels are whole."""

BROKEN = {
    "empty.jpg": b"",
    "page.jpg": b"<html>404</html>",
    "half.jpg": encoded("jpg")[:-200],
    "half.png": encoded("png", pattern((64, 64)))[:90],
    "half.webp": encoded("webp")[:60],
    "half.tiff": encoded("tiff")[:300],
    "half.gif": encoded("gif")[:40],
    "half.avif": encoded("avif")[:200],
    "bomb.png": png_header(30_000, 30_000),
    "huge.png": png_header(2**31 - 1, 2**31 - 1),
    "no_pixels.png": png_header(20, 20),
    "heif.heic": b"\0\0\0\x18ftypheic\0\0\0\0",
    "floats.tiff": encoded("tiff", Image.fromarray(np.full((8, 8), -3.5, np.float32))),
}
"""Files that cannot be decoded."""


def grow(folder, *paths):
    """Makes small images at these paths."""
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(encoded("png"))
    return folder


def said(table, words):
    """Whether a note of the table has these words."""
    return any(words in note for note in table.notes)
