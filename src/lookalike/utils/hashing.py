"""Hashes of text that decide an order or name a content: the same on every machine and in every version."""

import hashlib


def hash_text(text: str) -> bytes:
    """SHA-256 of text; names that are not UTF-8 (surrogates) have one too."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
