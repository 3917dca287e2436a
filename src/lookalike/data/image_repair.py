"""Rewrites a PNG or JPEG without its metadata, so that damaged or oversized metadata hides no whole pixels."""

import struct
import zlib
from typing import IO

PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"
KEPT_CHUNKS = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
ORIENTATION_CHUNK = b"eXIf"
ADOBE, START_OF_SCAN, COMMENT = 0xEE, 0xDA, 0xFE


def without_metadata(stream: IO[bytes]) -> bytes | None:
    """The file with pixels, transparency and, where it is whole, orientation alone; None for other formats."""
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
    kept, at = [JPEG], 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # fill bytes
            at += 1
            continue
        if marker == START_OF_SCAN:
            break
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if marker == ADOBE or not (0xE0 <= marker <= 0xEF or marker == COMMENT):
            kept.append(data[at:end])
        at = end
    return b"".join([*kept, data[at:]])
