"""What one side of a comparison reaches against its seconds, and two sides beside each other."""

import copy
import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from torch import Tensor

from benchmarks import Seconds, clock
from lookalike.training.inputs import Batches

LEVELS = (0.25, 0.5, 0.75, 0.9, 1.0)
"""Split of the way from the start to the best value that both sides reach."""
TOLERANCE = 1e-4
"""How far apart, relatively, the first losses of two sides may be; caches in half precision cost 5e-6."""


class Curve:
    """What one side reaches, against its seconds; the clocks run from here on, `already` spent before."""

    def __init__(self, name: str, already: Seconds | float = 0.0) -> None:
        self.name = name
        self.values: list[float] = []
        self.seconds: list[Seconds] = []
        self.steps, self.first_loss = 0, math.nan
        self.validation = np.zeros(2)
        self.already = np.zeros(2) + already
        self.began = clock() - self.already

    def step(self, loss: Tensor) -> None:
        """Counts a step; the loss of the first is kept."""
        self.steps += 1
        if self.steps == 1:
            self.first_loss = float(loss.detach())

    @contextmanager
    def validating(self) -> Iterator[None]:
        """Adds the time inside to that of validation."""
        began = clock()
        yield
        self.validation += clock() - began

    def add(self, value: float) -> None:
        """A validation has ended with this map_at_r."""
        self.values.append(value)
        self.seconds.append(clock() - self.began)

    def reaches(self, level: float) -> Seconds:
        """Seconds of the first validation at `level` or above."""
        pairs = zip(self.values, self.seconds, strict=True)
        return next(seconds for value, seconds in pairs if value >= level - 1e-9)


class RecordedBatches:
    """The batches of `inner`, with a checksum of each epoch in `given`."""

    def __init__(self, inner: Batches) -> None:
        self.inner = inner
        self.given: list[int] = []

    def set_epoch(self, epoch: int) -> None:
        """See `Batches`."""
        self.inner.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.inner)

    def __iter__(self) -> Iterator[list[int]]:
        checksum = 0
        for batch in self.inner:
            checksum = zlib.crc32(np.array(batch).tobytes(), checksum)
            yield batch
        self.given.append(checksum)


def check(mine: Curve, theirs: Curve, my_batches: RecordedBatches, their_batches: RecordedBatches) -> str:
    """Refuses two sides that do not learn the same thing; otherwise says how equal they are."""
    common = min(len(my_batches.given), len(their_batches.given))
    assert common > 0, f"{theirs.name} or ours has not ended an epoch"
    assert my_batches.given[:common] == their_batches.given[:common], "the batches differ"
    apart = abs(mine.first_loss / theirs.first_loss - 1)
    assert apart <= TOLERANCE, (
        f"the first step's losses, {mine.first_loss} and {theirs.first_loss}, are {apart:.1e} apart"
    )
    starts = abs(mine.values[0] - theirs.values[0])
    assert starts <= 10 * TOLERANCE, f"map_at_r of the starts, {mine.values[0]} and {theirs.values[0]}"
    return (
        f"ours and {theirs.name}: the same batches in all {common} common epochs, the first step's loss "
        f"{mine.first_loss:.6f} and {theirs.first_loss:.6f} ({apart:.0e} apart, {TOLERANCE:.0e} allowed), "
        f"map_at_r of the start {100 * mine.values[0]:.3f} and {100 * theirs.values[0]:.3f}"
    )


def median(curves: list[Curve]) -> Curve:
    """The first round, its seconds the medians over the rounds."""
    result = copy.copy(curves[0])
    result.seconds = list(np.median([curve.seconds for curve in curves], axis=0))
    result.validation = np.median([curve.validation for curve in curves], axis=0)
    return result


def facts(curve: Curve) -> str:
    """A side in three lines: what it reached, how fast it steps and validates, and every value."""
    training = curve.seconds[-1] - curve.already - curve.validation
    wall, cpu = curve.steps / training
    each = curve.validation / len(curve.values)
    best = int(np.argmax(curve.values))
    values = " ".join(f"{100 * value:.2f}" for value in curve.values)
    cache = f", the cache {curve.already[0]:.1f} s (CPU {curve.already[1]:.1f})" if curve.already[0] else ""
    return (
        f"{curve.name}: best {100 * curve.values[best]:.2f} at validation {best} of {len(curve.values) - 1}; "
        f"{curve.steps} steps, {wall:.1f} steps/s (CPU: {cpu:.1f}), a validation {each[0]:.2f} s "
        f"(CPU {each[1]:.2f}){cache}\n  map_at_r from the start on: {values}"
    )


def level_table(mine: Curve, theirs: Curve) -> str:
    """Seconds to each level, and to the end if both end after as many validations.

    The ratio is theirs to ours: above 1 ours is earlier.
    """
    begin, top = mine.values[0], min(max(mine.values), max(theirs.values))
    rows = []
    for share in LEVELS if top > begin else ():
        level = begin + share * (top - begin)
        rows.append(
            (f"{100 * level:.2f}", f"{100 * share:.0f} %", mine.reaches(level), theirs.reaches(level))
        )
    if len(mine.values) == len(theirs.values):
        rows.append(("", f"all {len(mine.values) - 1} epochs", mine.seconds[-1], theirs.seconds[-1]))
    lines = [
        f"| map_at_r | of the way | {mine.name}: s | {theirs.name}: s | ratio "
        f"| {mine.name}: CPU s | {theirs.name}: CPU s | ratio |",
        "|---" * 8 + "|",
    ]
    for level_cell, share_cell, a, b in rows:
        cells = [level_cell, share_cell]
        for at in (0, 1):
            cells += [f"{a[at]:.2f}", f"{b[at]:.2f}", f"{b[at] / a[at]:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    if top <= begin:
        lines.append("(no levels: the two sides do not both rise above the start)")
    return "\n".join(lines)
