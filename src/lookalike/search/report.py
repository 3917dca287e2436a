"""What bringing an index up to date changed."""

from dataclasses import dataclass, field
from pathlib import Path

from lookalike.utils.console import one_line
from lookalike.utils.io import escape_surrogates

_NAMED = 10


@dataclass
class IndexReport:
    """What bringing an index up to date changed; prints as a few lines.

    Attributes:
        images: in the index now; identical files are one.
        added: files whose content was embedded.
        known: files whose content was there already: copies, moved or touched files.
        relabeled: unchanged files whose label or columns changed.
        unchanged: files with nothing new.
        missing: listed files that are not there now; their entries stay.
        removed: entries that `prune` removed, and entries of files that no longer decode.
        bad: files that cannot be read as images, with the reason.
        notes: what else is worth knowing.
    """

    folder: Path
    images: int = 0
    added: int = 0
    known: int = 0
    relabeled: int = 0
    unchanged: int = 0
    missing: int = 0
    removed: int = 0
    bad: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = {
            "added": self.added,
            "known contents": self.known,
            "relabeled": self.relabeled,
            "unchanged": self.unchanged,
            "missing": self.missing,
            "removed": self.removed,
            "broken, skipped": len(self.bad),
        }
        always = ("added", "unchanged")
        found = ", ".join(f"{count} {name}" for name, count in counts.items() if count or name in always)
        images = f"{self.images} image{'' if self.images == 1 else 's'}"
        lines = [f"{self.folder}: {images} ({found})", *self.notes]
        lines += [f"broken: {reason}" for reason in list(self.bad.values())[:_NAMED]]
        if len(self.bad) > _NAMED:
            lines.append(f"... and {len(self.bad) - _NAMED} more")
        if self.missing:
            files = "1 file is" if self.missing == 1 else f"{self.missing} files are"
            lines.append(f"{files} not there now, but in the index (--prune removes them)")
        return escape_surrogates("\n".join(map(one_line, lines)))
