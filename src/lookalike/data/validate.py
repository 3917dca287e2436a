"""`check_data`: everything wrong with a data set, in one pass over its files.

Each file is decoded once (`image_facts`), then compared with the others by content and by appearance. Nothing is
changed; `without` gives the table that is left when images with an error are removed.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from lookalike.data.data_report import DataReport, Finding
from lookalike.data.dataset import LabeledImages
from lookalike.data.image_facts import ImageFacts, table_facts
from lookalike.data.image_io import REDUCE_FROM
from lookalike.data.labels import is_unlabeled, similar_labels
from lookalike.data.near_duplicates import group_near_duplicates
from lookalike.utils.progress import Progress

BLANK = 1.0
"""Thumbnails that spread less are of one color."""
DARK = 12
"""Mean gray values below are nearly black."""
UNLABELED = "."
"""The class of images that have no label."""
TINY = 24
"""Pixels; images with a shorter side are tiny."""


def check_data(
    table: LabeledImages, *, against: LabeledImages | None = None, progress: Progress | None = None
) -> DataReport:
    """Decodes every file of `table` and reports what is wrong.

    Args:
        against: another data set; images of `table` that are also in it are reported.
    """
    facts = table_facts(table, progress=progress)
    findings: dict[str, Finding] = {}
    reasons: dict[int, str] = {}
    _check_files(table, facts, findings, reasons)
    if against is not None:
        _check_against(table, facts, against, findings, reasons, progress)
    _check_copies(table, facts, findings, reasons)
    _check_labels(table, findings)
    if table.class_names == (UNLABELED,):  # nothing to train on or to score that could be spoiled
        findings = {
            kind: replace(found, severity="warning") if found.severity == "error" else found
            for kind, found in findings.items()
        }
    sizes = table.class_counts()[np.unique(table.labels)]
    return DataReport(
        name=table.name,
        images=len(table),
        classes=0 if is_unlabeled(table) else len(sizes),
        splits={split: int(np.count_nonzero(table.split == split)) for split in table.splits()},
        class_sizes=(int(sizes.min()), float(np.median(sizes)), int(sizes.max())),
        formats=dict(Counter(fact.format for fact in facts if fact.format).most_common()),
        modes=dict(Counter(fact.mode for fact in facts if fact.mode).most_common()),
        findings={kind: finding for kind, finding in findings.items() if finding.cases},
        reasons={table.paths[row]: reasons[row] for row in sorted(reasons)},
        notes=table.notes,
    )


def without(table: LabeledImages, report: DataReport) -> LabeledImages:
    """The table without the images that `report` has a reason to remove."""
    return table.rows([row for row, path in enumerate(table.paths) if path not in report.reasons]).present()


def _check_files(
    table: LabeledImages, facts: Sequence[ImageFacts], findings: dict[str, Finding], reasons: dict[int, str]
) -> None:
    """What is odd about single files."""
    broken = [row for row, fact in enumerate(facts) if fact.error]
    reasons |= {row: _why(table, row, facts[row].error) for row in broken}
    findings["unreadable"] = Finding(
        "error",
        "files cannot be read",
        [[table.paths[row]] for row in broken],
        [f"{table.paths[row]}: {reasons[row]}" for row in broken],
    )
    blank = [row for row, fact in enumerate(facts) if not fact.error and fact.spread < BLANK]
    reasons |= dict.fromkeys(blank, "blank: one plain color")
    findings["blank"] = _paths(table, "error", "images are blank: of one plain color", blank)
    kinds: dict[str, tuple[str, str, Callable[[ImageFacts], bool]]] = {
        "dark": ("warning", "images are nearly black", lambda f: f.spread >= BLANK and f.brightness < DARK),
        "tiny": (
            "warning",
            f"images are tiny: a side below {TINY} pixels",
            lambda f: min(f.width, f.height) < TINY,
        ),
        "giant": (
            "info",
            "images are giant and are decoded reduced",
            lambda f: f.width * f.height > REDUCE_FROM,
        ),
        "damaged_metadata": ("info", "files have damaged metadata, which is ignored", lambda f: f.repaired),
        "animated": ("info", "files are animated; the first frame counts", lambda f: f.animated),
        "rotated": (
            "info",
            "images are turned upright by their EXIF orientation",
            lambda f: f.orientation != 1,
        ),
        "profiles": ("info", "images have a color profile, which is applied", lambda f: f.has_profile),
    }
    for kind, (severity, title, test) in kinds.items():
        rows = [row for row, fact in enumerate(facts) if not fact.error and test(fact)]
        findings[kind] = _paths(table, severity, title, rows)
    deep = {row: fact.bits for row, fact in enumerate(facts) if "16" in fact.mode or fact.mode == "I"}
    for bits in sorted(set(deep.values())):
        rows = [row for row, used in deep.items() if used == bits]
        title = f"16-bit images use a range of {bits} bits (values up to {2**bits - 1}) and are scaled by it"
        findings[f"range_{bits}_bits"] = _paths(table, "info", title, rows)


def _check_against(
    table: LabeledImages,
    facts: Sequence[ImageFacts],
    against: LabeledImages,
    findings: dict[str, Finding],
    reasons: dict[int, str],
    progress: Progress | None,
) -> None:
    other = table_facts(against, progress=progress)
    copy_of = find_copies(facts, other)
    reasons |= {row: f"also in {against.name}: {against.paths[at]}" for row, at in copy_of.items()} | reasons
    findings["also_in_other"] = Finding(
        "error",
        f"images are also in {against.name}",
        [[table.paths[row], against.paths[at]] for row, at in copy_of.items()],
    )


def find_copies(facts: Sequence[ImageFacts], among: Sequence[ImageFacts]) -> dict[int, int]:
    """Row of `facts` -> a row of `among` with the same bytes, or that looks the same."""
    row_of = {fact.digest: row for row, fact in enumerate(among)}
    copies = {
        row: row_of[fact.digest] for row, fact in enumerate(facts) if fact.digest in row_of and not fact.error
    }
    for group in group_near_duplicates([*among, *facts]):
        theirs = [row for row in group if row < len(among)]
        if theirs:
            for row in group:
                if row >= len(among):
                    copies.setdefault(row - len(among), theirs[0])
    return dict(sorted(copies.items()))


def _check_copies(
    table: LabeledImages, facts: Sequence[ImageFacts], findings: dict[str, Finding], reasons: dict[int, str]
) -> None:
    """Identical and similar files, within classes, across classes and across splits."""
    same: dict[str, list[int]] = defaultdict(list)
    for row, fact in enumerate(facts):
        if not fact.error:
            same[fact.digest].append(row)
    identical = [rows for rows in same.values() if len(rows) > 1]
    conflicts = [rows for rows in identical if len(set(table.labels[rows].tolist())) > 1]
    duplicates = [rows for rows in identical if len(set(table.labels[rows].tolist())) == 1]
    near = [
        [row for row in group if row == same[facts[row].digest][0]] for group in group_near_duplicates(facts)
    ]
    near = [group for group in near if len(group) > 1]
    leaks = _leaks(table, [*identical, *near])
    for row, source in leaks.items():
        reasons.setdefault(row, f"test image that is also in another split: {table.paths[source]}")
    for rows in conflicts:
        for row in rows:
            reasons.setdefault(row, "the same file is in several classes: a label is wrong")
    for rows in duplicates:
        for row in rows[1:]:
            reasons.setdefault(row, f"copy of {table.paths[rows[0]]}")
    findings["conflicts"] = _groups(
        table, "error", "groups of byte-identical files in different classes: a label is wrong", conflicts
    )
    findings["duplicates"] = _groups(
        table, "error", "groups of byte-identical files in one class", duplicates
    )
    findings["leaks"] = _groups(
        table,
        "error",
        "test images are also in another split: scores are too high",
        [[r, s] for r, s in leaks.items()],
    )
    findings["near_duplicates"] = _groups(
        table, "warning", "groups of images look the same (saved twice, or frames of one scene)", near
    )


def _leaks(table: LabeledImages, groups: Sequence[Sequence[int]]) -> dict[int, int]:
    """Test image -> an image of another split that is the same."""
    if table.split is None:
        return {}
    test = (table.split == "test").tolist()
    leaks: dict[int, int] = {}
    for group in groups:
        others = [row for row in group if not test[row]]
        if others:
            leaks |= {row: others[0] for row in group if test[row]}
    return dict(sorted(leaks.items()))


def _check_labels(table: LabeledImages, findings: dict[str, Finding]) -> None:
    counts = table.class_counts()
    findings["similar_labels"] = Finding(
        "warning",
        "groups of class names differ only in case, spaces or zeros",
        similar_labels([name for name, count in zip(table.class_names, counts, strict=True) if count]),
    )
    findings["singletons"] = Finding(
        "warning",
        "classes have one image: no positive, so as queries they are left out of scores",
        [[table.class_names[c]] for c in np.flatnonzero(counts == 1).tolist()],
    )
    if table.split is not None and not is_unlabeled(table):
        test = np.asarray(table.split == "test")
        shared = np.intersect1d(table.labels[test], table.labels[~test])
        findings["shared_classes"] = Finding(
            "warning",
            "classes are in test and in another split: not unseen",
            [[table.class_names[label]] for label in shared.tolist()],
        )


def _paths(table: LabeledImages, severity: str, title: str, rows: Sequence[int]) -> Finding:
    return Finding(severity, title, [[table.paths[row]] for row in rows])


def _groups(table: LabeledImages, severity: str, title: str, groups: Sequence[Sequence[int]]) -> Finding:
    return Finding(severity, title, [[table.paths[row] for row in group] for group in groups])


def _why(table: LabeledImages, row: int, error: str) -> str:
    """An error's message without the file's name in front."""
    return error.removeprefix(f"{table.file(row)}: ")
