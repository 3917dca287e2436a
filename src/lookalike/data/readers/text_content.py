"""The text of a table in a text file, whatever encoding it is in."""

import codecs
from pathlib import Path

ENCODINGS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

MAX_LINE = 1 << 24
HEAD = 1 << 20
"""Bytes of a text file that suffice for the names of its columns."""
OTHER_CONTENT = (
    (b"PK\x03\x04", "a spreadsheet or zip archive; export it as CSV"),
    (b"\xd0\xcf\x11\xe0", "a spreadsheet; export it as CSV"),
    (b"\x1f\x8b", "compressed by gzip; unpack it"),
    (b"PAR1", "Parquet; call it .parquet"),
    (b"SQLite format 3", "a database; export the table as CSV"),
    (b"{\\rtf", "a text document; export it as CSV"),
    (b"version https://git-lfs", "a pointer of Git LFS, not the table; fetch it with: git lfs pull"),
)
"""First bytes of files that are no text, and what they are."""


def read_content(path: Path, head: bool) -> bytes:
    """The bytes of a text file, whose lines are looked at before all of it is in memory; of its head whole lines."""
    with open(path, "rb") as stream:
        first = stream.read(HEAD) if head else b""
        if b"\n" in first:
            return first if len(first) < HEAD else first[: first.rfind(b"\n") + 1]
        stream.seek(0)
        for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE), b""), start=1):
            if len(line) == MAX_LINE:
                raise ValueError(
                    f"line {number} has more than {MAX_LINE >> 20} MB; leave out what is no text"
                )
        stream.seek(0)
        return stream.read()


def decode(data: bytes, head: bool) -> str:
    """Decoded by the byte order mark, else as UTF-8; other bytes are kept as surrogates, as in file names."""
    for start, what in OTHER_CONTENT:
        if data.startswith(start):
            raise ValueError(f"whatever its suffix says, it is {what}")
    for mark, encoding in ENCODINGS:
        if data.startswith(mark):
            return data.decode(encoding, "ignore" if head else "strict")
    if b"\0" in data[:4096]:
        raise ValueError("it holds NUL bytes, as UTF-16 without a byte order mark does; save it as UTF-8")
    return data.decode("utf-8", "surrogateescape")
