"""What `check_data` found: findings by kind, one reason per image to remove, and the report as text and JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One kind of trouble, and its cases: paths, or groups of paths, or class names.

    Attributes:
        severity: "error" spoils training or scores, "warning" may, "info" is handled and only worth knowing.
        title: what it is, after its count.
        cases: each case as a list of paths or names.
        details: more about each case, or none.
    """

    severity: str
    title: str
    cases: list[list[str]]
    details: list[str] = field(default_factory=list)

    def lines(self, most: int) -> list[str]:
        """The finding for people, with its first `most` cases."""
        details = self.details or [""] * len(self.cases)
        shown = [
            f"    {detail or ' = '.join(case[:most])}{' = ...' if len(case) > most and not detail else ''}"
            for case, detail in zip(self.cases[:most], details, strict=False)
        ]
        more = [f"    ... and {len(self.cases) - most:,} more"] if len(self.cases) > most else []
        return [f"{self.severity}: {len(self.cases):,} {self.title}", *shown, *more]


@dataclass(frozen=True)
class DataReport:
    """What `check_data` found.

    Attributes:
        name, images, classes: of the data set; no classes without labels.
        splits: images in each split that the data names.
        class_sizes: smallest, median and largest number of images per class.
        formats, modes: files of each format and color mode.
        findings: by kind, only those with cases.
        reasons: path -> why the image should be removed, one reason per image.
        notes: what reading the data found.
    """

    name: str
    images: int
    classes: int
    splits: dict[str, int]
    class_sizes: tuple[int, float, int]
    formats: dict[str, int]
    modes: dict[str, int]
    findings: dict[str, Finding]
    reasons: dict[str, str]
    notes: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Nothing was found that spoils training or scores."""
        return not any(finding.severity == "error" for finding in self.findings.values())

    def cases(self, kind: str) -> list[list[str]]:
        """The cases of one kind, none if it was not found."""
        return self.findings[kind].cases if kind in self.findings else []

    @property
    def near(self) -> list[list[str]]:
        """Groups of different files that look the same."""
        return self.cases("near_duplicates")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "clean": self.clean}

    def lines(self, most: int = 5) -> list[str]:
        """The report for people; each finding with its first `most` cases."""
        low, median, high = self.class_sizes
        splits = ", ".join(f"{name} {count:,}" for name, count in self.splits.items())
        formats = ", ".join(f"{name} {count:,}" for name, count in self.formats.items())
        classes = f"{self.classes:,} classes ({low:,} to {high:,}, median {median:g} images each)"
        result = [f"{self.images:,} images, {classes if self.classes else 'no labels'}"]
        result += [f"split: {splits}"] if splits else []
        result += [f"formats: {formats}"] if formats else []
        result += [f"note: {note}" for note in self.notes]
        order = {"error": 0, "warning": 1, "info": 2}
        for finding in sorted(self.findings.values(), key=lambda finding: order[finding.severity]):
            result += finding.lines(most)
        removed = (
            f"{len(self.reasons):,} images should be removed (--write FILE.csv writes a table without them)"
            if self.reasons
            else ""
        )
        result.append(removed or ("nothing harmful found" if self.clean else "errors were found"))
        return result

    def plus(self, findings: Mapping[str, Finding]) -> "DataReport":
        """The report with further findings."""
        found = {kind: finding for kind, finding in findings.items() if finding.cases}
        return replace(self, findings={**self.findings, **found})
