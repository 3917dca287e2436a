"""An index on disk: a folder that is never half written and that any tool can read.

`index.json` holds the facts and names the other two files: `images-N.json` (a list for each fact about the
images) and `embeddings-N.npy` (float32, memory-mapped when opened). A write makes new files under new
names and replaces `index.json` last, in one step, so a reader sees the old index or the new one; an index
that is open keeps its file until it is closed.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import FileError
from lookalike.utils.io import write_atomically

FORMAT = 1
INDEX = "index.json"


def write_index(
    folder: Path, facts: dict[str, Any], columns: dict[str, list[Any]], vectors_ND: NDArray[np.float32]
) -> None:
    """Writes an index into `folder`, made if absent.

    Args:
        facts: plain values to keep.
        columns: facts about the images, a list of N each.
        vectors_ND: their vectors, (N, D) float32.
    """
    folder.mkdir(parents=True, exist_ok=True)
    previous = _read_json(folder / INDEX) if (folder / INDEX).is_file() else {}
    number = int(previous.get("number", 0)) + 1
    files = {"images": f"images-{number}.json", "embeddings": f"embeddings-{number}.npy"}
    write_atomically(folder / files["embeddings"], lambda file: _save_array(file, vectors_ND))
    write_atomically(folder / files["images"], _json(columns))
    write_atomically(
        folder / INDEX,
        _json({"format": FORMAT, "number": number, "count": len(vectors_ND), **facts, **files}),
    )
    for key in files:
        if key in previous:
            (folder / str(previous[key])).unlink(missing_ok=True)


def read_index(folder: Path) -> tuple[dict[str, Any], dict[str, list[Any]], NDArray[np.float32]]:
    """Facts, columns and memory-mapped vectors, as `write_index` got them.

    Raises:
        FileError: no index there, one that is damaged, or one of another format.
    """
    if not (folder / INDEX).is_file():
        raise FileError(f"no index in '{folder}': an index folder holds '{INDEX}'")
    facts = _read_json(folder / INDEX)
    if facts.get("format") != FORMAT:
        raise FileError(
            f"index '{folder}' has format {facts.get('format')}, this version reads {FORMAT}; build it again"
        )
    columns: dict[str, list[Any]] = _read_json(folder / facts["images"])
    try:
        vectors = np.load(folder / facts["embeddings"], mmap_mode="r" if facts["count"] else None)
    except (OSError, ValueError) as error:
        raise FileError(f"index '{folder}' is damaged ({error}); build it again") from error
    lengths = {len(column) for column in columns.values()}
    if lengths != {facts["count"]} or vectors.shape != (facts["count"], facts["dim"]):
        raise FileError(
            f"index '{folder}' is damaged: {facts['count']} images, vectors {vectors.shape}; build it again"
        )
    return facts, columns, vectors


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(f"'{file}' is damaged or missing ({error}); build the index again") from error
    return content


def _save_array(file: Path, array: NDArray[np.float32]) -> None:
    with file.open("wb") as stream:
        np.save(stream, array)


def _json(content: dict[str, Any]) -> Callable[[Path], object]:
    return lambda file: file.write_text(
        json.dumps(content, ensure_ascii=False, allow_nan=False), encoding="utf-8"
    )
