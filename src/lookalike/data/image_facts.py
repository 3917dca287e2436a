"""Facts of image files, found by decoding each file once and remembered by content.

`collect_facts` is what `data check`, training, evaluation and indexing know about files before they use them:
whether a file decodes, and which files look the same.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from lookalike.data.dataset import LabeledImages, with_box
from lookalike.data.image_io import ImageError, crop, decode
from lookalike.data.image_pixels import to_thumbnail
from lookalike.utils.cache_dir import cache_folder
from lookalike.utils.progress import Progress
from lookalike.utils.threads import in_threads

VERSION = 2
"""Goes up when the facts of the same file would be others."""
SIDE, SMALL_SIDE, LOW = 32, 16, 8
SEEN_AT = 128
"""JPEGs are decoded at no more than is needed for a thumbnail; a truncated one fails all the same."""
FLUSH = 500
"""Facts are written to the cache in batches of so many files."""


@dataclass(frozen=True)
class ImageFacts:
    """What decoding a file showed.

    Attributes:
        digest: BLAKE2b of the file's bytes, in hex, and the box; of the path where they cannot be read.
        error: why the file cannot be decoded; empty if it can.
        hash: 64-bit perceptual hash; files that look the same differ in few bits.
        thumbnail: 16 x 16 gray values, row by row.
        width, height, format, mode, orientation, has_profile, animated, bits, repaired: see `DecodedImage`.
    """

    digest: str
    error: str = ""
    hash: int = 0
    thumbnail: bytes = b""
    width: int = 0
    height: int = 0
    format: str = ""
    mode: str = ""
    orientation: int = 1
    has_profile: bool = False
    animated: bool = False
    bits: int = 8
    repaired: bool = False

    @property
    def spread(self) -> float:
        """Standard deviation of the thumbnail's gray values; 0 for one plain color."""
        return float(np.frombuffer(self.thumbnail, np.uint8).std()) if self.thumbnail else 0.0

    @property
    def brightness(self) -> float:
        """Mean gray value."""
        return float(np.frombuffer(self.thumbnail, np.uint8).mean()) if self.thumbnail else 0.0


@dataclass(frozen=True)
class Source:
    """An image to look at: a file, or the part of it inside `box`."""

    file: Path
    box: tuple[int, int, int, int] | None = None

    @property
    def key(self) -> bytes:
        """What the cache knows it by."""
        name = os.fsencode(self.file.absolute())
        return name if self.box is None else os.fsencode(with_box("", self.box)) + name


def table_facts(table: LabeledImages, *, progress: Progress | None = None) -> list[ImageFacts]:
    """Facts of each image of a table, of the part inside its box where it has one."""
    sources = [Source(table.file(row), table.box(row)) for row in range(len(table))]
    return collect_facts(sources, progress=progress)


def collect_facts(sources: Sequence[Source], *, progress: Progress | None = None) -> list[ImageFacts]:
    """Facts of each image, in order; files whose content was seen before are not decoded again."""
    found: dict[int, ImageFacts] = {}
    with closing(FactsCache()) as cache:
        known = cache.by_file(sources)
        found |= {row: known[source] for row, source in enumerate(sources) if source in known}
        new = [row for row in range(len(sources)) if row not in found]
        if new:
            with (progress or Progress()).phase("checking images", len(new)) as phase:
                batch: list[tuple[Source, ImageFacts]] = []
                for row, facts in zip(
                    new, in_threads(lambda row: examine(sources[row], cache), new), strict=True
                ):
                    found[row] = facts
                    batch.append((sources[row], facts))
                    if len(batch) == FLUSH:
                        cache.remember(batch)
                        batch = []
                    phase.advance()
                cache.remember(batch)
    return [found[row] for row in range(len(sources))]


def examine(source: Source, cache: "FactsCache") -> ImageFacts:
    """Facts of one image, by decoding its file unless its content is known."""
    file, box = source.file, source.box
    try:
        if not os.path.isfile(file):  # a named pipe would be waited for, a device be read without end
            raise FileNotFoundError
        with open(file, "rb") as stream:
            digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError:
        digest = "unreadable " + hashlib.blake2b(os.fsencode(file), digest_size=16).hexdigest()
    digest += "" if box is None else with_box("", box)
    known = cache.by_digest(digest)
    if known is not None:
        return known
    try:
        decoded = decode(file, at_least=(SEEN_AT, SEEN_AT) if box is None else None)
        image = decoded.image if box is None else crop(decoded, box, file)
    except ImageError as error:
        return ImageFacts(digest, error=str(error))
    gray = to_thumbnail(image, SIDE)
    small = gray.reshape(SMALL_SIDE, 2, SMALL_SIDE, 2).mean(axis=(1, 3))
    return ImageFacts(
        digest,
        hash=perceptual_hash(gray),
        thumbnail=np.rint(small).astype(np.uint8).tobytes(),
        width=decoded.size[0],
        height=decoded.size[1],
        format=decoded.format,
        mode=decoded.mode,
        orientation=decoded.orientation,
        has_profile=decoded.has_profile,
        animated=decoded.animated,
        bits=decoded.bits,
        repaired=decoded.repaired,
    )


def _cosines() -> npt.NDArray[np.float32]:
    """The first LOW rows of the DCT-II of SIDE values, shape (LOW, SIDE)."""
    k, n = np.arange(LOW)[:, None], np.arange(SIDE)[None]
    return np.cos(np.pi * k * (2 * n + 1) / (2 * SIDE)).astype(np.float32)


COSINES = _cosines()


def perceptual_hash(gray: npt.NDArray[np.float32]) -> int:
    """Signs of the 8 x 8 lowest frequencies against their median, as 64 bits; `gray` is 32 x 32."""
    low = (COSINES @ gray @ COSINES.T).ravel()
    low[0] = 0  # brightness
    bits = low > np.median(low)
    return int.from_bytes(np.packbits(bits).tobytes(), "big")


class FactsCache:
    """Facts by content, and digests by file, in one SQLite file; where it cannot be used every file is decoded."""

    def __init__(self) -> None:
        self._database: sqlite3.Connection | None = None
        self._lock = Lock()
        file = cache_folder() / f"image_facts-{VERSION}.sqlite"
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(file, timeout=30, check_same_thread=False)
            self._database.executescript(
                "CREATE TABLE IF NOT EXISTS facts (digest TEXT PRIMARY KEY, fields TEXT, thumbnail BLOB);"
                "CREATE TABLE IF NOT EXISTS files (path BLOB PRIMARY KEY, state TEXT, digest TEXT);"
            )
        except (OSError, sqlite3.Error):  # a cache that cannot be written costs time, nothing else
            self._database = None

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    def by_file(self, sources: Iterable[Source]) -> dict[Source, ImageFacts]:
        """Facts of the images whose files have not changed since they were decoded."""
        if self._database is None:
            return {}
        result = {}
        try:
            for source in sources:
                state = _state(source.file)
                row = (
                    state
                    and self._database.execute(
                        "SELECT facts.digest, fields, thumbnail FROM files JOIN facts USING (digest) "
                        "WHERE path = ? AND state = ?",
                        (source.key, state),
                    ).fetchone()
                )
                if row:
                    result[source] = _load(*row)
        except (sqlite3.Error, ValueError, TypeError):
            return result
        return result

    def by_digest(self, digest: str) -> ImageFacts | None:
        """Facts of a file of this content, decoded before under whatever name; for several threads."""
        if self._database is None:
            return None
        try:
            with self._lock:
                query = "SELECT digest, fields, thumbnail FROM facts WHERE digest = ?"
                row = self._database.execute(query, (digest,)).fetchone()
            return _load(*row) if row else None
        except (sqlite3.Error, ValueError, TypeError):
            return None

    def remember(self, batch: Sequence[tuple[Source, ImageFacts]]) -> None:
        if self._database is None:
            return
        whole = [
            (source, facts, state)
            for source, facts in batch
            if not facts.error and (state := _state(source.file))
        ]
        try:
            with self._lock, self._database:
                self._database.executemany(
                    "INSERT OR REPLACE INTO facts VALUES (?, ?, ?)",
                    [(facts.digest, _dump(facts), facts.thumbnail) for _, facts, _ in whole],
                )
                self._database.executemany(
                    "INSERT OR REPLACE INTO files VALUES (?, ?, ?)",
                    [(source.key, state, facts.digest) for source, facts, state in whole],
                )
        except sqlite3.Error:
            self._database = None


def _state(file: Path) -> str:
    """What changes when a file changes; empty where there is no file."""
    try:
        facts = os.stat(file)
    except OSError:
        return ""
    return f"{facts.st_size}:{facts.st_mtime_ns}:{facts.st_ctime_ns}:{facts.st_ino}"


STORED = tuple(field.name for field in fields(ImageFacts) if field.name not in ("digest", "thumbnail"))


def _dump(facts: ImageFacts) -> str:
    values = asdict(facts)
    return json.dumps([values[name] for name in STORED], allow_nan=False)


def _load(digest: str, stored: str, thumbnail: bytes) -> ImageFacts:
    values: dict[str, Any] = dict(zip(STORED, json.loads(stored), strict=True))
    return ImageFacts(digest=digest, thumbnail=thumbnail, **values)
