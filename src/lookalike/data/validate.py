"""Everything wrong with a data set, in one pass over its files.

Each file is read once: hashed, decoded in full (a header alone does not show a truncated file), and shrunk to
a thumbnail whose correlation with others finds images that were saved twice at another quality or size.
Nothing is changed; `clean` says what would be left without the images that do harm.
"""

import hashlib
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from lookalike.data.dataloader import in_threads
from lookalike.data.dataset import LabeledImages
from lookalike.data.image_io import open_image, to_thumbnail
from lookalike.errors import DataError
from lookalike.utils.progress import Progress

THUMBNAIL = 16
NEAR = 0.995  # correlation of two thumbnails from which on they count as the same image
MOST_COMPARED = 200_000  # near duplicates are looked for up to so many images


@dataclass(frozen=True)
class DataReport:
    """What `check_data` found. Groups hold paths; a group has at least two.

    Attributes:
        images, classes: counts.
        parts: images in each part of the data's own split.
        unreadable: path -> what is wrong.
        duplicates: groups of byte-identical files of one class.
        conflicts: groups of byte-identical files in different classes: a label is wrong.
        near: pairs of different files that look the same, outside the groups above.
        leaks: images of the test part that are also (exactly or nearly) in another part.
        shared_classes: classes in both test and another part.
        lone: classes with a single image: it has nothing to be found by.
        compared: whether near duplicates were looked for.
    """

    images: int
    classes: int
    parts: dict[str, int]
    smallest_class: int
    median_class: float
    largest_class: int
    unreadable: dict[str, str]
    duplicates: list[list[str]]
    conflicts: list[list[str]]
    near: list[tuple[str, str]]
    leaks: list[str]
    shared_classes: list[str]
    lone: list[str]
    compared: bool
    harmful: list[str] = field(repr=False)

    @property
    def clean(self) -> bool:
        """Nothing was found that spoils training or scores; lone classes and near duplicates may stay."""
        return not (self.unreadable or self.duplicates or self.conflicts or self.leaks)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "clean": self.clean}

    def lines(self, most: int = 5) -> list[str]:
        """The report for people; each kind of trouble with its first `most` cases."""
        parts = ", ".join(f"{name} {count:,}" for name, count in self.parts.items())
        sizes = f"{self.smallest_class:,} to {self.largest_class:,}, median {self.median_class:g}"
        result = [f"{self.images:,} images, {self.classes:,} classes ({sizes} images each)"]
        result += [f"split: {parts}"] if parts else []
        troubles: list[tuple[str, list[str]]] = [
            ("files cannot be read", list(self.unreadable.values())),
            (
                "groups of byte-identical files in different classes: a label is wrong",
                _joined(self.conflicts),
            ),
            ("groups of byte-identical files in one class", _joined(self.duplicates)),
            ("test images are also in another part: scores are too high", self.leaks),
            ("pairs of images look the same (saved twice, or cropped alike)", _joined(self.near)),
            ("classes are in test and in another part", self.shared_classes),
            ("classes have one image: as queries they have no match and are left out", self.lone),
        ]
        for what, cases in troubles:
            if cases:
                result.append(f"{len(cases):,} {what}")
                result += [f"    {case}" for case in cases[:most]]
                result += [f"    ... and {len(cases) - most:,} more"] if len(cases) > most else []
        if not self.compared:
            result.append(f"more than {MOST_COMPARED:,} images: near duplicates were not looked for")
        result.append("nothing harmful found" if self.clean else f"{len(self.harmful):,} images should go")
        return result


def check_data(table: LabeledImages, *, progress: Progress | None = None) -> DataReport:
    """Reads every file of `table` and reports what is wrong; see `DataReport`."""
    count = len(table)
    with (progress or Progress()).phase("checking images", count) as phase:
        found = []
        for one in in_threads(lambda row: _look_at(table, row), range(count)):
            found.append(one)
            phase.advance()
    unreadable = {table.paths[i]: why for i, (_, _, why) in enumerate(found) if why}
    groups = _groups([digest for digest, _, _ in found])
    compared = count <= MOST_COMPARED
    pairs = _near_pairs([None if why else look for _, look, why in found]) if compared else []
    digests = [digest for digest, _, _ in found]
    pairs = [(i, j) for i, j in pairs if digests[i] != digests[j]]
    conflicts = [g for g in groups if len(set(table.labels[g].tolist())) > 1]
    same_class = [g for g in groups if len(set(table.labels[g].tolist())) == 1]
    leaks = _leaks(table, groups, pairs)
    drop = {i for i in range(count) if table.paths[i] in unreadable} | leaks
    drop |= {i for g in conflicts for i in g} | {i for g in same_class for i in g[1:]}
    sizes = table.class_counts()[np.unique(table.labels)]
    return DataReport(
        images=count,
        classes=len(sizes),
        parts={p: int(np.count_nonzero(table.split == p)) for p in table.splits()},
        smallest_class=int(sizes.min()),
        median_class=float(np.median(sizes)),
        largest_class=int(sizes.max()),
        unreadable=unreadable,
        duplicates=[[table.paths[i] for i in g] for g in same_class],
        conflicts=[[table.paths[i] for i in g] for g in conflicts],
        near=[(table.paths[i], table.paths[j]) for i, j in pairs],
        leaks=[table.paths[i] for i in sorted(leaks)],
        shared_classes=_shared_classes(table),
        lone=[table.class_names[c] for c in np.flatnonzero(table.class_counts() == 1).tolist()],
        compared=compared,
        harmful=[table.paths[i] for i in sorted(drop)],
    )


def without(table: LabeledImages, report: DataReport) -> LabeledImages:
    """The table without its harmful images: unreadable, conflicting, second copies, leaks."""
    harmful = set(report.harmful)
    return table.rows([i for i, path in enumerate(table.paths) if path not in harmful]).present()


def _look_at(table: LabeledImages, index: int) -> tuple[bytes, npt.NDArray[np.float32] | None, str]:
    """Digest of the file, thumbnail, and what is wrong (or '')."""
    file = table.file(index)
    try:
        digest = hashlib.sha256(file.read_bytes()).digest()
        return digest, to_thumbnail(open_image(file), THUMBNAIL), ""
    except (DataError, OSError) as error:
        return b"unreadable %d" % index, None, " ".join(str(error).split())


def _groups(digests: list[bytes]) -> list[list[int]]:
    rows: dict[bytes, list[int]] = defaultdict(list)
    for i, digest in enumerate(digests):
        rows[digest].append(i)
    return [group for group in rows.values() if len(group) > 1]


def _near_pairs(looks: list[npt.NDArray[np.float32] | None], block: int = 2048) -> list[tuple[int, int]]:
    """Pairs of rows whose thumbnails correlate at NEAR or more; flat images are left out."""
    rows, vectors = [], []
    for i, look in enumerate(looks):
        if look is not None and look.std() > 2:
            centered = look.ravel() - look.mean()
            rows.append(i)
            vectors.append(centered / np.linalg.norm(centered))
    if not vectors:
        return []
    units_ND = torch.from_numpy(np.stack(vectors))
    pairs = []
    for start in range(0, len(rows), block):
        sims_BN = units_ND[start : start + block] @ units_ND[start:].T
        for a, b in (sims_BN >= NEAR).nonzero().tolist():
            if b > a:
                pairs.append((rows[start + a], rows[start + b]))
    return pairs


def _leaks(table: LabeledImages, groups: list[list[int]], pairs: list[tuple[int, int]]) -> set[int]:
    if table.split is None:
        return set()
    together = [*groups, *([i, j] for i, j in pairs)]
    part_of = table.split.tolist()
    mixed = [g for g in together if len({part_of[i] == "test" for i in g}) == 2]
    return {i for g in mixed for i in g if part_of[i] == "test"}


def _shared_classes(table: LabeledImages) -> list[str]:
    if table.split is None:
        return []
    test = np.asarray(table.split == "test")
    shared = np.intersect1d(table.labels[test], table.labels[~test])
    return [table.class_names[label] for label in shared.tolist()]


def _joined(groups: list[Any]) -> list[str]:
    return [" = ".join(group) for group in groups]
