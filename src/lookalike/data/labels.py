"""Class names that may mean the same class: they differ by case, spaces, Unicode form, or as 7 and 07."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lookalike.data.dataset import LabeledImages, number_labels
from lookalike.errors import DataError

_NO_WIDTH = re.compile(r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_SHORTENED = re.compile(r"\d([.,]\d+)?E\+\d+")
_NEGATIVE = re.compile(r"-\d+(\.0*)?")


def is_unlabeled(table: LabeledImages) -> bool:
    """Whether the images were read without labels: all are then of one class, `.`."""
    return table.class_names == (".",)


def label_key(name: str) -> str:
    """What names that may mean the same class have in common."""
    seen = _NO_WIDTH.sub("", unicodedata.normalize("NFKC", name).casefold()).strip()
    folded = " ".join(re.split(r"[\s_\-]+", seen))
    number = re.fullmatch(r"0*(\d+)(\.0*)?", folded)
    return number[1] if number else folded


def similar_labels(names: Sequence[str]) -> list[list[str]]:
    """Groups of class names with the same key, each of two or more."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[label_key(name)].append(name)
    return [group for group in groups.values() if len(group) > 1]


MISSING = frozenset(
    {"nan", "none", "null", "na", "n/a", "<na>", "-", "?", "unknown", "unlabeled", "unlabelled"}
    | {"#n/a", "#ref!", "#value!", "#name?", "#div/0!", "#num!", "#null!"}
)
"""What programs and people write for a value that is not there."""


def refuse_negative(where: str, label: str) -> None:
    """Refuses -1 and the like as the name of a class: published data sets mark junk so.

    Raises:
        DataError: naming `where` and the remedy.
    """
    if _NEGATIVE.fullmatch(label):
        raise DataError(
            f"{where} has label {label}; negative labels are not classes: leave them out with "
            f"--ignore-label={label}, or give the class a name"
        )


def notes_on_labels(names: Sequence[str]) -> list[str]:
    """Notes on class names that may mean the same class, or no class."""
    return [
        *_note_on_missing(names),
        *_note_on_similar(names),
        *_note_on_shortened(names),
        *_note_on_several(names),
    ]


def _note_on_shortened(names: Sequence[str]) -> list[str]:
    found = [name for name in names if _SHORTENED.fullmatch(name)]
    return [
        f"a class is called {name}, as spreadsheets shorten long numbers, which makes different ones the same; format "
        "the column as text and export it again"
        for name in found[:1]
    ]


def _note_on_several(names: Sequence[str]) -> list[str]:
    """Where labels look like lists of other labels."""
    known = set(names)
    for name in names:
        parts = [part.strip(" '\"[]") for part in re.split(r"[,;|]", name)]
        if len(parts) > 1 and (name.startswith("[") or known.intersection(parts)):
            return [f"'{name}' looks like several labels; it is read as one class, other than '{parts[0]}'"]
    return []


def _note_on_missing(names: Sequence[str]) -> list[str]:
    missing = [name for name in names if name.casefold() in MISSING]
    if not missing:
        return []
    listed, ignored = (
        ", ".join(f"'{name}'" for name in missing),
        " ".join(f"--ignore-label={n}" for n in missing),
    )
    return [
        f"read as names of classes: {listed}; if they mean that there is no label, leave them out: {ignored}"
    ]


def _note_on_similar(names: Sequence[str]) -> list[str]:
    groups = similar_labels(names)
    if not groups:
        return []
    count = (
        f"{len(groups):,} groups of class names differ"
        if len(groups) > 1
        else "1 group of class names differs"
    )
    first = " and ".join(f"'{name}'" for name in groups[0][:3])
    return [
        f"{count} only in case, spaces or zeros, such as {first}; if they mean "
        "the same class, join them: lookalike data check DATA --join-labels --write joined.csv"
    ]


def join_labels(table: LabeledImages) -> LabeledImages:
    """The table with each group of similar class names as one class, called as most of its images are."""
    counts = table.class_counts()
    name_of = dict(zip(table.class_names, table.class_names, strict=True))
    number_of = {name: i for i, name in enumerate(table.class_names)}
    for group in similar_labels(table.class_names):
        common = max(group, key=lambda name: (counts[number_of[name]], name))
        name_of |= dict.fromkeys(group, common)
    labels, names = number_labels([name_of[table.class_names[i]] for i in table.labels.tolist()])
    kept = np.array([number_of[name] for name in names], dtype=np.int64)
    coarse = tuple(replace(level, parents=level.parents[kept]) for level in table.coarse)
    return replace(table, labels=labels, class_names=names, coarse=coarse)
