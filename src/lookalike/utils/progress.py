"""Progress reporting: an interface with silent, progress-bar and plain-line implementations.

Library functions take a `Progress` and open a phase for each loop; the silent default costs nothing.
The command line passes one that draws bars, or prints plain lines where standard error is not a terminal.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichBars

from lookalike.utils.console import escape_controls


class Phase(Protocol):
    """One running phase."""

    def advance(self, steps: int = 1) -> None:
        """`steps` more are done."""

    def note(self, text: str) -> None:
        """A short remark next to the bar, such as the current loss."""


class Progress:
    """Silent; the others override nothing but `phase`, `say` and `warn`."""

    @contextmanager
    def phase(self, name: str, total: int) -> Iterator[Phase]:
        """Announces a phase of `total` steps."""
        yield _Silent()

    def say(self, text: str) -> None:
        """A line that stays."""

    def warn(self, text: str) -> None:
        """A line that stays, of something that may spoil the result."""
        self.say(f"warning: {text}")


class WarningsOnly(Progress):
    """Lines on standard error for warnings, nothing else: what --quiet leaves."""

    def warn(self, text: str) -> None:
        print(f"warning: {text}", file=sys.stderr, flush=True)


class _Silent:
    def advance(self, steps: int = 1) -> None:
        pass

    def note(self, text: str) -> None:
        pass


class BarProgress(Progress):
    """Bars with remaining time on a terminal's standard error."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)

    @contextmanager
    def phase(self, name: str, total: int) -> Iterator[Phase]:
        columns = (
            TextColumn("{task.description:<28}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[remark]}"),
        )
        with RichBars(*columns, console=self._console, transient=False) as bars:
            yield _Bar(bars, bars.add_task(name, total=total, remark=""))

    def say(self, text: str) -> None:
        self._console.print(escape_controls(text), highlight=False, markup=False)


class _Bar:
    def __init__(self, bars: RichBars, task: int) -> None:
        self._bars, self._task = bars, task

    def advance(self, steps: int = 1) -> None:
        self._bars.advance(self._task, steps)  # type: ignore[arg-type]

    def note(self, text: str) -> None:
        self._bars.update(self._task, remark=text)  # type: ignore[arg-type]


class LineProgress(Progress):
    """A plain line at the start of a phase, every few seconds, and at its end; for logs and pipes."""

    def __init__(self, every_seconds: float = 10.0) -> None:
        self._every = every_seconds

    @contextmanager
    def phase(self, name: str, total: int) -> Iterator[Phase]:
        line = _Line(name, total, self._every)
        self.say(f"{name} ...")
        yield line
        self.say(f"{name}: done, {line.done} in {time.monotonic() - line.began:.1f} s{line.remark}")

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class _Line:
    def __init__(self, name: str, total: int, every: float) -> None:
        self.name, self.total, self.every = name, total, every
        self.done, self.remark = 0, ""
        self.began = self.reported = time.monotonic()

    def advance(self, steps: int = 1) -> None:
        self.done += steps
        now = time.monotonic()
        if now - self.reported >= self.every and self.done < self.total:
            self.reported = now
            left = (now - self.began) / self.done * (self.total - self.done)
            print(
                f"{self.name}: {self.done} of {self.total}, {left:.0f} s left{self.remark}",
                file=sys.stderr,
                flush=True,
            )

    def note(self, text: str) -> None:
        self.remark = f", {text}"
