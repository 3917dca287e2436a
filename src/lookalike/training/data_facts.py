"""What a run was trained on, and whether data that it is continued with fits.

A run is continued with the training and validation images that it began with, or fewer of them, in the same
classes. Test images may change, since nothing has seen them. What is refused is an image that may have been trained
on and would now be tested on.
"""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.data.dataset import LabeledImages
from lookalike.data.registry import BUILT_IN
from lookalike.data.splits import Split
from lookalike.errors import DataError, FileError
from lookalike.training.run_dir import RunDir
from lookalike.utils.hashing import hash_text
from lookalike.utils.io import os_errors, write_atomically

IMAGES = "images.npy"
"""In training_state/: hashes of the paths of the training and validation images."""


def data_facts(
    data: LabeledImages | str | Path, table: LabeledImages, split: Split, start_from: Path | None
) -> dict[str, Any]:
    """The content of data.json."""
    parts = {"train": split.train, "validation": split.validation, "test": split.test}
    return {
        "name": table.name,
        "source": _source(data),
        "digest": table.digest(),
        "split_digest": split.digest(),
        "split_source": split.source,
        "classes_digest": _classes_digest(split),
        "start_from": None if start_from is None else str(start_from),
        "classes": {name: part.num_classes for name, part in parts.items()},
        "images": {name: len(part) for name, part in parts.items()},
    }


def own_split(run_dir: RunDir, table: LabeledImages) -> Split | None:
    """How the run split `table`, if it is the data that the run was trained on; None of other data.

    Raises:
        DataError: a protocol split it in a way that settings do not say.
    """
    facts = run_dir.read_json("data.json")
    if table.digest() != facts["digest"]:
        return None
    split = run_dir.experiment().split(table)
    if split.digest() != facts["split_digest"]:
        raise DataError(
            f"the run '{run_dir.path}' was split in another way, by a protocol ({facts['split_source']}): its numbers "
            "are in its result.json, and another split might test on what it was trained on; give other data"
        )
    return split


def save_image_hashes(run_dir: RunDir, split: Split) -> None:
    """Remembers which images are trained on or select."""
    file = run_dir.state_path(IMAGES)
    with os_errors("write", file, "free space or name another folder"):
        write_atomically(file, lambda temporary: _save(temporary, _hashes(split.trainval.paths)))


def check_same_data(run_dir: RunDir, facts: dict[str, Any], split: Split, purpose: str) -> list[str]:
    """Refuses data whose test images may have been trained on; returns what else changed, in words.

    Args:
        purpose: "resume" or "start_from", for the message.

    Raises:
        FileError: other classes, or other training and validation images than in the run.
    """
    earlier = run_dir.read_json("data.json")
    if earlier["split_digest"] == facts["split_digest"] and earlier["digest"] == facts["digest"]:
        return []
    known = _known_hashes(run_dir)
    start = f"{purpose}: the run '{run_dir.path}' was trained on other data ({earlier['name']})"
    remedy = "continuing could mix training and test classes; use its data, seed and fractions, or train from scratch"
    if known is None or earlier["classes_digest"] != facts["classes_digest"]:
        raise FileError(f"{start}: its training and validation classes differ from these; {remedy}")
    added = ~np.isin(_hashes(split.trainval.paths), known)
    if added.any():
        first = split.trainval.paths[int(added.argmax())]
        raise FileError(f"{start}: it did not have {int(added.sum())} of these images ({first}); {remedy}")
    leaked = np.isin(_hashes(split.test.paths), known)
    if leaked.any():
        first = split.test.paths[int(leaked.argmax())]
        raise FileError(f"{start}: {first} is a test image now and was not in that run; {remedy}")
    now, then = facts["images"], earlier["images"]
    changed = [f"{name} images {then[name]} -> {now[name]}" for name in then if now[name] != then[name]]
    return changed or ["test images changed"]


def _source(data: LabeledImages | str | Path) -> str:
    """Where the data can be read again: an absolute path, or a name such as glyphs."""
    if isinstance(data, LabeledImages):
        return str(data.root.resolve())
    path = Path(data).expanduser()
    return str(path.resolve()) if os.fspath(data) not in BUILT_IN and path.exists() else os.fspath(data)


def _classes_digest(split: Split) -> str:
    parts = (split.train, split.validation)
    return hash_text("".join(f"{part.num_classes};" + "\0".join(part.class_names) for part in parts)).hex()


def _hashes(paths: Iterable[str]) -> NDArray[np.uint64]:
    blobs = (
        hashlib.blake2b(path.encode("utf-8", "surrogateescape"), digest_size=8).digest() for path in paths
    )
    return np.frombuffer(b"".join(blobs), dtype="<u8")


def _save(file: Path, hashes: NDArray[np.uint64]) -> None:
    with file.open("wb") as stream:
        np.save(stream, hashes)


def _known_hashes(run_dir: RunDir) -> NDArray[np.uint64] | None:
    try:
        hashes: NDArray[np.uint64] = np.load(run_dir.state_path(IMAGES))
    except (OSError, ValueError):
        return None
    return hashes
