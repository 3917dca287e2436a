"""Groups of images that look the same, in time near linear in their number.

Each image is compared with the first image of earlier groups that share a part of its perceptual hash, so a
thousand frames of one scene are one group and not half a million pairs.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lookalike.data.image_facts import ImageFacts

NEAR = 0.995
"""Correlation of two thumbnails from which on they count as the same image."""
FLAT = 2.0
"""Images whose thumbnail spreads less have nothing to be compared by."""
MAX_BITS = 14
"""Hashes that differ in more bits are not compared further."""
BAND_BITS, BANDS = 11, 6
"""Hashes that differ in fewer bits than there are bands are equal in one band at least."""

POPCOUNT = np.array([value.bit_count() for value in range(256)], dtype=np.uint8)


def group_near_duplicates(facts: Sequence[ImageFacts]) -> list[list[int]]:
    """Groups of two or more rows whose images look the same; rows with errors or of one color are in none."""
    rows = [row for row, fact in enumerate(facts) if not fact.error and fact.spread > FLAT]
    hashes = np.array([facts[row].hash for row in rows], dtype=np.uint64)
    leaders: dict[tuple[int, int], list[int]] = defaultdict(list)
    group_of: dict[int, list[int]] = {}
    for at, row in enumerate(rows):
        keys = _bands(facts[row].hash)
        candidates = sorted({leader for key in keys for leader in leaders.get(key, ())})
        leader = _most_similar(at, np.array(candidates, dtype=np.int64), hashes, facts, rows)
        if leader is None:
            group_of[at] = [row]
            for key in keys:
                leaders[key].append(at)
        else:
            group_of[leader].append(row)
    return [group for group in group_of.values() if len(group) > 1]


def _bands(value: int) -> list[tuple[int, int]]:
    mask = (1 << BAND_BITS) - 1
    return [(band, value >> (band * BAND_BITS) & mask) for band in range(BANDS)]


def _most_similar(
    at: int,
    candidates: npt.NDArray[np.int64],
    hashes: npt.NDArray[np.uint64],
    facts: Sequence[ImageFacts],
    rows: Sequence[int],
) -> int | None:
    """The candidate whose thumbnail correlates most with that of `at`, if by NEAR or more."""
    if not len(candidates):
        return None
    differ = (hashes[candidates] ^ hashes[at]).view(np.uint8).reshape(-1, 8)
    close = candidates[POPCOUNT[differ].sum(axis=1) <= MAX_BITS]
    if not len(close):
        return None
    own = _unit(facts[rows[at]].thumbnail)
    similarities = [float(own @ _unit(facts[rows[other]].thumbnail)) for other in close.tolist()]
    best = int(np.argmax(similarities))
    return int(close[best]) if similarities[best] >= NEAR else None


def _unit(thumbnail: bytes) -> npt.NDArray[np.float32]:
    values = np.frombuffer(thumbnail, np.uint8).astype(np.float32)
    values -= values.mean()
    return values / np.linalg.norm(values)
