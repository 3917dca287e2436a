"""Rewrites a PNG or JPEG without its metadata, so that damaged or oversized metadata hides no whole pixels.

A JPEG whose pixels are whole but whose end marker is missing, as some cameras write it, gets the marker.
"""

import io
import struct
import zlib
from typing import IO

from PIL import Image

PNG, JPEG, JPEG_END = b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"\xff\xd9"
KEPT_CHUNKS = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
ORIENTATION_CHUNK = b"eXIf"
ADOBE, START_OF_SCAN, COMMENT, PROGRESSIVE = 0xEE, 0xDA, 0xFE, 0xC2
MAX_TO_COMPLETE = 50_000_000
"""Pixels of a JPEG that is decoded several times to see whether it is whole."""


def without_metadata(stream: IO[bytes]) -> bytes | None:
    """The file with pixels, transparency and, where it is whole, orientation alone; None for other formats.

    Raises:
        OSError: a JPEG that cannot be decoded.
    """
    head = stream.read(8)
    if head == PNG:
        return _strip_png(head + stream.read())
    return _strip_jpeg(head + stream.read()) if head[:2] == JPEG else None


def _strip_png(data: bytes) -> bytes:
    kept, at = [PNG], len(PNG)
    while at + 8 <= len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        chunk = data[at : at + 12 + size]
        if kind in KEPT_CHUNKS or (kind == ORIENTATION_CHUNK and _intact(chunk, size)):
            kept.append(chunk)
        at += 12 + size
    return b"".join(kept)


def _intact(chunk: bytes, size: int) -> bool:
    return len(chunk) == size + 12 and zlib.crc32(chunk[4:-4]) == int.from_bytes(chunk[-4:], "big")


def _strip_jpeg(data: bytes) -> bytes:
    kept, at, progressive = [JPEG], 2, False
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # fill bytes
            at += 1
            continue
        if marker == START_OF_SCAN:
            break
        progressive = progressive or marker == PROGRESSIVE
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if marker == ADOBE or not (0xE0 <= marker <= 0xEF or marker == COMMENT):
            kept.append(data[at:end])
        at = end
    stripped = b"".join([*kept, data[at:]])
    return stripped if progressive or JPEG_END in data[at:] else _with_end(stripped)


def _with_end(data: bytes) -> bytes:
    """A JPEG with the end marker that it lacks, if no pixel depends on what follows its last byte."""
    whole = data.removesuffix(JPEG_END[:1])
    ends = [whole + fill * 64 + JPEG_END for fill in (b"\x00", b"\x55", b"\xaa", b"\xf0")]
    with Image.open(io.BytesIO(data)) as image:
        if image.width * image.height > MAX_TO_COMPLETE:
            return data
    return ends[0] if len({zlib.crc32(Image.open(io.BytesIO(end)).tobytes()) for end in ends}) == 1 else data
