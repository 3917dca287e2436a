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
STRIDES = (1, 5, 19)
"""A hash is divided into four bands of 16 bits in three ways: its bits in order, every 5th, every 19th. Hashes that
differ in up to 3 bits are equal in some band; of those that differ in 5 (in 7), 99 % (87 %) are."""

POPCOUNT = np.array([value.bit_count() for value in range(256)], dtype=np.uint8)


def group_near_duplicates(facts: Sequence[ImageFacts]) -> list[list[int]]:
    """Groups of two or more rows whose images look the same; rows with errors or of one color are in none."""
    rows = [row for row, fact in enumerate(facts) if not fact.error and fact.spread > FLAT]
    hashes = np.array([facts[row].hash for row in rows], dtype=np.uint64)
    leaders: dict[int, list[int]] = defaultdict(list)
    group_of: dict[int, list[int]] = {}
    for at, (row, keys) in enumerate(zip(rows, _bands(hashes).tolist(), strict=True)):
        candidates = sorted({leader for key in keys if key in leaders for leader in leaders[key]})
        leader = _most_similar(at, np.array(candidates, dtype=np.int64), hashes, facts, rows)
        if leader is None:
            group_of[at] = [row]
            for key in keys:
                leaders[key].append(at)
        else:
            group_of[leader].append(row)
    return [group for group in group_of.values() if len(group) > 1]


def _bands(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """The bands of each hash, shape (N, 12); a band's number stands above its 16 bits."""
    bits = np.unpackbits(hashes.view(np.uint8).reshape(len(hashes), 8), axis=1)
    order = np.concatenate([np.arange(64) * stride % 64 for stride in STRIDES])
    packed = np.packbits(bits[:, order], axis=1)
    bands = np.ascontiguousarray(packed).view(np.uint16).astype(np.int64)
    return bands + (np.arange(bands.shape[1]) << 16)


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
