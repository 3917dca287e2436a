"""Splits of a table by classes, so that test classes are never seen in training.

`ClassSplit` has two sides, `Split` has train, validation and test; both assert that their parts share no class
and no file. Which classes are held out depends on the seed and the class names alone, not on the version of a
random generator, the order of the files or the machine.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from lookalike.data.dataset import Ints, LabeledImages
from lookalike.errors import ArgumentError, DataError
from lookalike.utils.hashing import hash_text
from lookalike.utils.validation import check_at_least, check_choice

SOURCES = ("auto", "named", "hold_out")


@dataclass(frozen=True, eq=False)
class ClassSplit:
    """Two tables that share no class (by name) and no file; unpacks as `kept, held = split`.

    Raises:
        DataError: on building, if they do; the message names the first class or file.
    """

    kept: LabeledImages
    held: LabeledImages

    def __post_init__(self) -> None:
        _check_disjoint(self.kept, self.held)

    def __iter__(self) -> Iterator[LabeledImages]:
        return iter((self.kept, self.held))

    def digest(self) -> str:
        """SHA-256 of which images and classes lie on which side; equal splits have equal digests."""
        return _digest(self.kept, self.held)


@dataclass(frozen=True, eq=False)
class Split:
    """Train, validation and test tables that share no class; `trainval` is train and validation together.

    `source` says where the test classes come from: 'named' by the data itself, or 'hold_out'.
    """

    train: LabeledImages
    validation: LabeledImages
    test: LabeledImages
    trainval: LabeledImages
    source: str

    def __post_init__(self) -> None:
        _check_disjoint(self.train, self.validation)
        _check_disjoint(self.trainval, self.test)

    @property
    def unused(self) -> str:
        """What of the data's own split is not used, in words; empty where all of it is."""
        if self.train.split is None or not (self.train.split != "train").any():
            return ""
        return "the data's own parts are joined, since they share classes or name no test"

    def digest(self) -> str:
        """SHA-256 of which images and classes lie in which part."""
        return _digest(self.train, self.validation, self.test)


def hold_out_classes(
    table: LabeledImages, fraction: float, *, seed: int, kept: Collection[str] = (), leave: int = 2
) -> ClassSplit:
    """Holds out about `fraction` of the classes, at least 2.

    Classes are ordered by SHA-256 of "seed:name"; the first ones are held. Adding a class to the data
    therefore moves few others. Held classes without any image pair cannot be scored, so when no held class
    has two images the split is refused.

    Args:
        kept: names of classes that are not held out, since a model has seen them.
        leave: as many classes are kept, whatever the fraction.

    Raises:
        ArgumentError: `fraction` is not between 0 and 1.
        DataError: fewer than 4 classes, fewer than 2 that may be held out, or nothing held that could be scored.
    """
    if not 0 < fraction < 1:
        raise ArgumentError(f"fraction of held-out classes is {fraction}; it must lie between 0 and 1")
    classes = np.unique(table.labels)
    _check_enough(table, 4, "2 to keep, 2 to hold out")
    free = [c for c in classes.tolist() if table.class_names[c] not in kept]
    if len(free) < 2:
        raise DataError(
            f"{table.name}: {len(free)} of its {len(classes)} classes {'is' if len(free) == 1 else 'are'} new to the "
            "model that training starts from, and testing needs 2 new ones; add classes, or accept test classes that "
            "it was trained on (--test-on-trained), which the result marks"
        )
    held_count = min(max(2, round(fraction * len(classes))), len(classes) - leave, len(free))
    ordered = sorted(free, key=lambda c: hash_text(f"{seed}:{table.class_names[c]}"))
    held = np.array(sorted(ordered[:held_count]))
    if table.class_counts()[held].max() < 2:
        raise DataError(
            f"{table.name}: none of the {held_count} held-out classes has two images, so none can be scored; "
            "raise the fraction, try another seed, or give classes more images"
        )
    return _cut(table, held)


def half_split(table: LabeledImages) -> ClassSplit:
    """The papers' protocol: the first floor(C/2) classes train, the others test."""
    check_at_least(f"number of classes of {table.name}", table.num_classes, 2)
    return _cut(table, np.arange(table.num_classes // 2, table.num_classes))


def two_stage_halves(train: LabeledImages) -> ClassSplit:
    """ProxyNCA++'s first stage: of the training classes, the first floor(C/2) train, the others validate.

    CUB 50/50, Cars 49/49, SOP 5,659/5,659, In-Shop 1,998/1,999.
    """
    return half_split(train)


def class_folds(train: LabeledImages, folds: int = 4) -> tuple[ClassSplit, ...]:
    """The Reality Check's class folds of the h training classes, unshuffled.

    floor(h/folds) classes validate; fold p starts at class floor(p*h/folds), the training block first and
    the validation block after it, wrapping around. CUB (h=100): 75/25, validation 75-99, 0-24, 25-49, 50-74.
    Cars (h=98): 74/24, validation 74-97, 0-23, 25-48, 49-72: classes 24 and 73 never validate.
    """
    check_at_least("folds", folds, 2)
    h = train.num_classes
    if h < 2 * folds:
        raise DataError(
            f"{train.name} has {h} classes; {folds} folds need at least {2 * folds}; ask for fewer"
        )
    validating = h // folds
    result = []
    for p in range(folds):
        start = p * h // folds + (h - validating)
        result.append(_cut(train, np.sort(np.arange(start, start + validating) % h)))
    return tuple(result)


def named_split(table: LabeledImages) -> ClassSplit:
    """The data's own split: everything but 'test' is kept, 'test' is held.

    Raises:
        DataError: no such split, or its sides share classes (a split for classification).
    """
    held = table.part("test")
    assert table.split is not None
    return ClassSplit(table.rows(table.split != "test").present(), held)


def three_way_split(
    table: LabeledImages,
    *,
    test_fraction: float,
    validation_fraction: float,
    seed: int,
    source: str,
    not_test: Collection[str] = (),
    not_validation: Collection[str] = (),
) -> Split:
    """Train, validation and test tables; `Experiment.split` calls it with the settings of a run.

    Args:
        table: the whole data set.
        test_fraction: fraction of the classes in the test split, where the data names no test split.
        validation_fraction: fraction of the other classes in the validation split, where the data names none.
        seed: chooses the classes.
        source: 'auto' uses the data's own test split if it has one; 'named' insists on it; 'hold_out'
            ignores it.
        not_test: names of classes that are not held out for the test split.
        not_validation: names of classes that are not held out for validation as long as there are others.

    Raises:
        DataError: the named split shares classes between its sides, or too few classes.
    """
    check_choice("source", source, SOURCES)
    named = "test" in table.splits()
    if source == "hold_out" or (source == "auto" and not named):
        _check_enough(table, 6, "2 each to train, to validate and to test")
        trainval, test = hold_out_classes(table, test_fraction, seed=seed, kept=not_test, leave=4)
        train, validation = _hold_out_validation(trainval, validation_fraction, seed, not_validation)
        return Split(train, validation, test, trainval, "hold_out")
    trainval, test = named_split(table)
    if "validation" in trainval.splits():
        train, validation = trainval.part("train"), trainval.part("validation")
        shared = set(train.class_names) & set(validation.class_names)
        if not shared:
            return Split(train, validation, test, trainval, "named")
        if source == "named":
            _check_disjoint(train, validation)
    _check_enough(trainval, 4, "2 to train, 2 to validate", where=" outside its test split")
    train, validation = _hold_out_validation(trainval, validation_fraction, seed, not_validation)
    return Split(train, validation, test, trainval, "named")


def _hold_out_validation(
    trainval: LabeledImages, fraction: float, seed: int, avoided: Collection[str]
) -> ClassSplit:
    others = set(trainval.present().class_names) - set(avoided)
    return hold_out_classes(trainval, fraction, seed=seed, kept=avoided if len(others) > 1 else ())


def _check_enough(table: LabeledImages, least: int, why: str, where: str = "") -> None:
    """Refuses too few classes with the number that the user sees in the data."""
    count = len(np.unique(table.labels))
    if count < least:
        classes = "class" if count == 1 else "classes"
        raise DataError(
            f"{table.name} has {count} {classes}{where}; holding out classes needs at least {least} ({why}); "
            "add classes" + (", or ignore the data's own split: --set data.split=hold_out" if where else "")
        )


def _cut(table: LabeledImages, held: Ints) -> ClassSplit:
    kept = np.setdiff1d(np.arange(table.num_classes), held)
    return ClassSplit(table.of_classes(kept), table.of_classes(held))


def _digest(*split: LabeledImages) -> str:
    return hash_text(";".join(part.digest() for part in split)).hex()


def _check_disjoint(one: LabeledImages, other: LabeledImages) -> None:
    shared = set(one.class_names) & set(other.class_names)
    if shared:
        raise DataError(
            f"{one.name}: the two sides of the split share {len(shared)} classes, first '{min(shared)}'; "
            "for unseen classes ignore the data's own split (train: --set data.split=hold_out, "
            "data split: --source hold_out) or list each class once"
        )
    files = set(one.paths) & set(other.paths)
    if files:
        raise DataError(
            f"{one.name}: the two sides of the split share {len(files)} files, first {min(files)}; "
            "list each image once"
        )
