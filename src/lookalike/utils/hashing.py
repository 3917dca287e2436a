"""Hashes of text and files that decide an order or name a content: the same on every machine and in every version."""

import hashlib
import zlib
from pathlib import Path

BLOCK = 1 << 24


def hash_text(text: str) -> bytes:
    """SHA-256 of text; names that are not UTF-8 (surrogates) have one too."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def checksum(path: Path) -> int:
    """CRC-32 of a file."""
    value = 0
    with path.open("rb") as stream:
        while block := stream.read(BLOCK):
            value = zlib.crc32(block, value)
    return value
