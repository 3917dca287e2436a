"""`LabeledImages`, a data set: paths, labels and class names; no pixels.

Readers build it from files, splits divide it, `ImageDataset` opens its images. It is immutable and checked when
it is built, so the code behind it may trust labels to be 0..C-1.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lookalike.errors import ArgumentError, DataError
from lookalike.utils.validation import check_choice

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.str_]

SPLITS = ("train", "validation", "test")
ROLES = ("query", "gallery", "both")
_DIGITS = re.compile(r"(\d+)")
MAX_DIGITS = 1000  # Python refuses to read longer numbers


def natural_key(name: str) -> tuple[tuple[int, int | str, str], ...]:
    """Sort key that puts `img2` before `img10`, and numbers before words."""
    return tuple(
        (0, int(part), part) if part.isdecimal() and len(part) <= MAX_DIGITS else (1, part.casefold(), part)
        for part in _DIGITS.split(name)
        if part
    )


@dataclass(frozen=True, eq=False)
class CoarseLevel:
    """A coarser grouping of the classes, such as the species' family.

    `parents` has shape (C,): the coarse class 0..G-1 of each class; `class_names` are the G coarse names.
    """

    name: str
    parents: Ints
    class_names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class LabeledImages:
    """A table of N images in C classes.

    Attributes:
        root: folder that the paths are relative to.
        paths: N POSIX paths; a path is also the image's id. Where several boxes of one file are listed, each has
            its box in its id (`with_box`).
        labels: int64 (N,), each in 0..C-1.
        class_names: the C original names, in the order of the labels. A class may be empty.
        coarse: zero or more coarser groupings of the classes.
        split: (N,) of 'train', 'validation', 'test', where the data itself names a split.
        role: (N,) of 'query', 'gallery', 'both', where the data itself separates queries from gallery.
        boxes: int64 (N, 4), left, top, right, bottom of the part of each image that counts, in pixels of the
            upright image; None: whole images.
        name: what to call the data set in results.
        source: where `read` found it, an absolute path or a name; empty for a table that was built otherwise.
        notes: what reading the data found that a person should know, such as files that were left out.

    Raises:
        DataError: on building, if lengths, labels or words do not fit together.
    """

    root: Path
    paths: tuple[str, ...]
    labels: Ints
    class_names: tuple[str, ...]
    coarse: tuple[CoarseLevel, ...] = ()
    split: Words | None = None
    role: Words | None = None
    boxes: Ints | None = None
    name: str = "data"
    source: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        labels = _frozen(_whole_numbers(self.labels, self.name), np.int64)
        object.__setattr__(self, "labels", labels)
        for name in ("split", "role"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _frozen(getattr(self, name), np.str_))
        if labels.shape != (len(self.paths),):
            raise DataError(f"{self.name}: {len(self.paths)} paths but labels of shape {labels.shape}")
        if self.boxes is not None:
            boxes = _frozen(self.boxes, np.int64)
            object.__setattr__(self, "boxes", boxes)
            if boxes.shape != (len(self.paths), 4):
                raise DataError(
                    f"{self.name}: boxes have shape {boxes.shape}, expected ({len(self.paths)}, 4)"
                )
        outside = (labels < 0) | (labels >= self.num_classes)
        if outside.any():
            first = int(outside.argmax())
            raise DataError(
                f"{self.name}: label {labels[first]} of {self.paths[first]} is not in "
                f"0..{self.num_classes - 1}; number the classes from 0 in the order of class_names"
            )
        if len(set(self.class_names)) != self.num_classes:
            raise DataError(f"{self.name}: class_names holds a name twice; names must be unique")
        for level in self.coarse:
            if level.parents.shape != (self.num_classes,):
                raise DataError(
                    f"{self.name}: coarse level '{level.name}' has {len(level.parents)} parents for "
                    f"{self.num_classes} classes; give each class one parent"
                )
        self._check_words("split", self.split, SPLITS)
        self._check_words("role", self.role, ROLES)

    def _check_words(self, what: str, words: Words | None, known: Sequence[str]) -> None:
        if words is None:
            return
        if words.shape != self.labels.shape:
            raise DataError(f"{self.name}: {what} has shape {words.shape}, expected {self.labels.shape}")
        bad = ~np.isin(words, known)
        if bad.any():
            first = int(bad.argmax())
            raise DataError(
                f"{self.name}: {what} '{words[first]}' of {self.paths[first]} is none of {', '.join(known)}"
            )

    def __len__(self) -> int:
        return len(self.paths)

    def __repr__(self) -> str:
        parts = "/".join(f"{part} {np.count_nonzero(self.split == part)}" for part in self.splits())
        named = f", split {parts}" if parts else ""
        return f"<LabeledImages '{self.name}': {len(self)} images, {self.num_classes} classes{named}>"

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    def file(self, index: int) -> Path:
        """The file of image `index`."""
        return self.root / self.file_path(index)

    def file_path(self, index: int) -> str:
        """The path of the file of image `index`: its id without a box."""
        path, box = self.paths[index], self.box(index)
        return path if box is None else path.removesuffix(with_box("", box))

    def box(self, index: int) -> tuple[int, int, int, int] | None:
        """(left, top, right, bottom) of the part of image `index` that counts; None: all of it."""
        if self.boxes is None:
            return None
        left, top, right, bottom = self.boxes[index].tolist()
        return left, top, right, bottom

    def class_counts(self) -> Ints:
        """Number of images per class, shape (C,)."""
        return np.bincount(self.labels, minlength=self.num_classes).astype(np.int64)

    def splits(self) -> tuple[str, ...]:
        """Names of the splits that the data itself has, in the order train, validation, test."""
        return () if self.split is None else tuple(p for p in SPLITS if (self.split == p).any())

    def rows(self, index: Iterable[int] | npt.NDArray[Any]) -> Self:
        """The images at `index` (numbers or a mask), in that order, with the same classes."""
        at = np.asarray(index if isinstance(index, np.ndarray) else list(index))
        at = np.flatnonzero(at) if at.dtype == np.bool_ else at.astype(np.int64)
        return replace(
            self,
            paths=tuple(self.paths[i] for i in at.tolist()),
            labels=self.labels[at],
            split=None if self.split is None else self.split[at],
            role=None if self.role is None else self.role[at],
            boxes=None if self.boxes is None else self.boxes[at],
        )

    def of_classes(self, class_ids: Iterable[int] | npt.NDArray[Any]) -> Self:
        """The images of these classes, labels renumbered 0.. in the order of `class_ids`.

        Coarse levels keep only the coarse classes that are still used.

        Raises:
            ArgumentError: a class twice or outside 0..C-1.
        """
        ids = np.asarray(class_ids if isinstance(class_ids, np.ndarray) else list(class_ids), dtype=np.int64)
        if len(np.unique(ids)) != len(ids) or (
            len(ids) and not 0 <= ids.min() <= ids.max() < self.num_classes
        ):
            raise ArgumentError(f"class numbers must be distinct and in 0..{self.num_classes - 1}")
        renumber = np.full(self.num_classes, -1, dtype=np.int64)
        renumber[ids] = np.arange(len(ids))
        kept = self.rows(renumber[self.labels] >= 0)
        return replace(
            self,
            paths=kept.paths,
            labels=renumber[kept.labels],
            class_names=tuple(self.class_names[i] for i in ids.tolist()),
            coarse=tuple(_coarse_of(level, ids) for level in self.coarse),
            split=kept.split,
            role=kept.role,
            boxes=kept.boxes,
        )

    def present(self) -> Self:
        """The same images, with only the classes that have any."""
        return self.of_classes(np.unique(self.labels))

    def part(self, name: str) -> Self:
        """The images that the data's own split calls `name`, classes renumbered to those present.

        Raises:
            DataError: the data has no split, or the part is empty.
        """
        check_choice("part", name, SPLITS)
        if self.split is None or not (self.split == name).any():
            has = ", ".join(self.splits()) or "none"
            raise DataError(f"{self.name} has no part '{name}' (its parts: {has}); hold out classes instead")
        return self.rows(self.split == name).present()

    def queries(self) -> Ints:
        """Rows of queries: all, unless the data separates queries from gallery."""
        asks = np.ones(len(self), bool) if self.role is None else self.role != "gallery"
        return np.flatnonzero(asks).astype(np.int64)

    def gallery(self) -> Ints:
        """Rows of the gallery: all, unless the data separates queries from gallery."""
        found = np.ones(len(self), bool) if self.role is None else self.role != "query"
        return np.flatnonzero(found).astype(np.int64)

    def image_digest(self) -> str:
        """Hash of the bytes and boxes of all images, in order; names and labels do not matter."""
        whole = hashlib.blake2b(digest_size=16)
        for row in range(len(self)):
            whole.update(hashlib.blake2b(self.file(row).read_bytes(), digest_size=16).digest())
        if self.boxes is not None:
            whole.update(self.boxes.astype("<i8").tobytes())
        return whole.hexdigest()

    def digest(self) -> str:
        """SHA-256, in hex, of paths, labels, class names, coarse levels, split and roles (not of pixels)."""
        sha = hashlib.sha256()
        for strings in (self.paths, self.class_names):
            sha.update(f"{len(strings)};".encode())
            sha.update("\0".join(strings).encode("utf-8", "surrogatepass"))
        sha.update(self.labels.astype("<i8").tobytes())
        for level in self.coarse:
            sha.update("\0".join((level.name, *level.class_names)).encode("utf-8", "surrogatepass"))
            sha.update(level.parents.astype("<i8").tobytes())
        for words in (self.split, self.role):
            sha.update(b";" if words is None else ("\0".join(words.tolist()) + ";").encode())
        if self.boxes is not None:
            sha.update(self.boxes.astype("<i8").tobytes())
        return sha.hexdigest()


def with_box(path: str, box: Sequence[int] | None) -> str:
    """The id of the part of an image in `box`; of the whole image without one."""
    return path if box is None else f"{path}#box={','.join(map(str, box))}"


def _whole_numbers(labels: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    values = np.asarray(labels)
    if values.dtype.kind in "iu" or not values.size:
        return values
    if values.dtype.kind == "f" and np.isfinite(values).all() and (values % 1 == 0).all():
        return values
    raise DataError(f"{name}: labels are not whole numbers (dtype {values.dtype}); number the classes from 0")


def _frozen(values: npt.ArrayLike, dtype: type) -> npt.NDArray[Any]:
    """A read-only copy; the caller's array stays as it was."""
    copy: npt.NDArray[Any] = np.array(values, dtype=dtype)
    copy.setflags(write=False)
    return copy


def _coarse_of(level: CoarseLevel, ids: Ints) -> CoarseLevel:
    used, parents = np.unique(level.parents[ids], return_inverse=True)
    names = tuple(level.class_names[i] for i in used.tolist())
    return CoarseLevel(level.name, parents.astype(np.int64), names)


def number_labels(raw: Sequence[str]) -> tuple[Ints, tuple[str, ...]]:
    """Original labels as numbers 0..C-1, and the names in natural order.

    `['17', '3', '17']` -> `([1, 0, 1], ('3', '17'))`.
    """
    names = tuple(sorted(set(raw), key=natural_key))
    number = {name: i for i, name in enumerate(names)}
    return np.fromiter((number[label] for label in raw), np.int64, len(raw)), names
