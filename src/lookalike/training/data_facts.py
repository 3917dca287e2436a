"""data.json, the record of a run's data, and the check that a resumed run is given the same.

A run is resumed with the training and validation images that it began with, or fewer of them, in the same
classes. Test images may change, since nothing has seen them. What is refused is an image that may have been trained
on and would now be tested on.
"""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.data.dataset import LabeledImages
from lookalike.data.splits import Split
from lookalike.errors import FileError
from lookalike.training.run_dir import RunDir
from lookalike.utils.hashing import hash_text
from lookalike.utils.io import ARRAY_ERRORS, os_errors, write_atomically

IMAGES = "images.npy"
"""In training_state/: hashes of the paths of the training and validation images."""


def data_facts(
    table: LabeledImages,
    split: Split,
    start_from: Path | None,
    *,
    test_on_trained: bool = False,
) -> dict[str, Any]:
    """The content of data.json."""
    parts = {"train": split.train, "validation": split.validation, "test": split.test}
    return {
        "name": table.name,
        "source": table.source or str(table.root.resolve()),
        "digest": table.digest(),
        "split_digest": split.digest(),
        "split_source": split.source,
        "classes_digest": _classes_digest(split),
        "start_from": None if start_from is None else str(start_from),
        "test_on_trained": test_on_trained,
        "classes": {name: part.num_classes for name, part in parts.items()},
        "images": {name: len(part) for name, part in parts.items()},
    }


def save_image_hashes(run_dir: RunDir, split: Split) -> None:
    """Remembers which images are trained on or select."""
    file = run_dir.state_path(IMAGES)
    with os_errors("write", file, "free space or name another folder"):
        write_atomically(file, lambda temporary: _save(temporary, _hashes(split.trainval.paths)))


def check_same_data(run_dir: RunDir, facts: dict[str, Any], split: Split) -> list[str]:
    """Refuses data whose test images may have been trained on; returns what else changed, in words.

    Raises:
        FileError: other classes, or other training and validation images than in the run.
    """
    earlier = run_dir.read_json("data.json")
    if earlier["split_digest"] == facts["split_digest"] and earlier["digest"] == facts["digest"]:
        return []
    known = _known_hashes(run_dir)
    start = f"resume: the run '{run_dir.path}' was trained on other data ({earlier['name']})"
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


def trained_images(run_dir: RunDir, source: str, paths: Sequence[str]) -> tuple[str, ...]:
    """Those of `paths` that the run trained on or chose by; none where its data lies elsewhere than at `source`."""
    known = _known_hashes(run_dir)
    if known is None or run_dir.read_json("data.json")["source"] != source:
        return ()
    return tuple(compress(paths, np.isin(_hashes(paths), known).tolist()))


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
    except ARRAY_ERRORS:
        return None
    return hashes
