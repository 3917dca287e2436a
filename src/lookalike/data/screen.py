"""Checks before images are used: files that cannot be decoded, and test images that training also has.

Every command that reads images calls `drop_unreadable` first, so a broken file is found before hours of work and
treated in the same way everywhere.
"""

from collections.abc import Mapping
from dataclasses import replace

from lookalike.data.dataset import LabeledImages
from lookalike.data.image_facts import table_facts
from lookalike.data.image_io import ImageError
from lookalike.data.splits import Split
from lookalike.data.validate import find_copies
from lookalike.errors import DataError
from lookalike.utils.progress import Progress
from lookalike.utils.validation import check_choice

ON_BAD_FILE = ("skip", "fail")
NAMED = 3
"""So many files are named in a message."""


def drop_unreadable(
    table: LabeledImages, *, on_bad_file: str = "skip", progress: Progress | None = None
) -> tuple[LabeledImages, dict[str, str]]:
    """The table without images that cannot be decoded, and path -> reason of each of those.

    Decodes every file once; files whose content was decoded before are not decoded again. The skipped files
    are counted in the table's notes. Classes without images left are removed.

    Raises:
        ImageError: a file cannot be decoded and `on_bad_file` is "fail".
        DataError: no file can be decoded.
    """
    check_choice("on_bad_file", on_bad_file, ON_BAD_FILE)
    facts = table_facts(table, progress=progress)
    bad = {path: fact.error for path, fact in zip(table.paths, facts, strict=True) if fact.error}
    if not bad:
        return table, {}
    message = describe_skipped(bad, len(table))
    if on_bad_file == "fail":
        raise ImageError(f"{message}; --on-bad-file skip leaves them out")
    if len(bad) == len(table):
        raise DataError(f"{table.name}: none of the {len(table):,} images can be read: {message}")
    left = table.rows([row for row, fact in enumerate(facts) if not fact.error])
    return replace(left.present(), notes=(*table.notes, f"skipped: {message}")), bad


def describe_skipped(bad: Mapping[str, str], total: int) -> str:
    """One line that counts and names files that cannot be decoded."""
    shown = "; ".join(list(bad.values())[:NAMED])
    more = f"; and {len(bad) - NAMED:,} more (`lookalike data check` lists them)" if len(bad) > NAMED else ""
    return f"{len(bad):,} of {total:,} images cannot be decoded: {shown}{more}"


def find_test_copies(split: Split) -> dict[str, str]:
    """Test image -> training or validation image with the same bytes, or that looks the same.

    The scores of such test images say nothing about unseen images.
    """
    test, trainval = (table_facts(table) for table in (split.test, split.trainval))
    copies = find_copies(test, trainval)
    return {split.test.paths[row]: split.trainval.paths[at] for row, at in copies.items()}


def describe_copies(copies: Mapping[str, str]) -> str:
    """One line that counts test images that training also has."""
    test, other = next(iter(copies.items()))
    images = "test image is a copy" if len(copies) == 1 else "test images are copies"
    return (
        f"{len(copies):,} {images} of training or validation images, such as {test} of {other}: scores are too high; "
        "result.json also has them without the copies, and `lookalike data check` lists them"
    )
