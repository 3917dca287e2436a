"""Reads data sets whose files hold the images: Hugging Face `datasets` on disk, and Parquet with an image column.

The images are unpacked into the cache, once, next to a table of the other columns, for `read_table`.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from lookalike.data.dataset import LabeledImages
from lookalike.data.readers.columns import BOX_COLUMNS, FLAG_COLUMNS, is_coarse
from lookalike.data.readers.folder import part_of
from lookalike.data.readers.tables import read_table
from lookalike.data.readers.write_frame import write_frame
from lookalike.errors import DataError, first_line
from lookalike.utils.cached_folder import folder_of, make_folder
from lookalike.utils.io import read_json

IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "labels", "fine_label", "class")
TABLE = "images.parquet"
DICT, STATE, INFO = "dataset_dict.json", "state.json", "dataset_info.json"


@dataclass(frozen=True)
class Shard:
    """One file with rows, and the split that its folder or name gives."""

    file: Path
    split: str = ""


def recognizes(folder: Path) -> bool:
    """What `save_to_disk` wrote, or Parquet files with images, at the top, in `data/` or in a folder per split."""
    return (folder / DICT).is_file() or _is_saved(folder) or bool(_parquet(folder) or _in_parts(folder))


def read(folder: Path, *, verify: bool = True) -> LabeledImages:
    """The data set in a folder that `recognizes` accepts."""
    shards = _saved(folder) or _parquet(folder) or _in_parts(folder)
    return read_shards(shards, folder.name, verify=verify, labeled=False)


def holds_images(file: Path) -> bool:
    """Whether a Parquet file has a column of images."""
    if file.suffix.lower() != ".parquet":
        return False
    try:
        return _image_column(pl.Schema(pl.read_parquet_schema(file))) is not None
    except (pl.exceptions.PolarsError, OSError):
        return False


def read_shards(
    shards: Sequence[Shard],
    name: str,
    *,
    verify: bool = True,
    labeled: bool = True,
    ignore_labels: Collection[str] = (),
) -> LabeledImages:
    """The data set in files that hold images, unpacked into the cache under the hash of their content."""
    folder = folder_of((shard.file, f"{TABLE} {shard.split}") for shard in shards)
    make_folder(folder, lambda temporary: _unpack(shards, temporary))
    try:
        table = read_table(folder / TABLE, verify=verify, labeled=labeled, ignore_labels=ignore_labels)
    except DataError as error:  # nobody knows the table in the cache
        source = shards[0].file if len(shards) == 1 else shards[0].file.parent
        raise DataError(str(error).replace(str(folder / TABLE), str(source))) from error
    return replace(table, name=name, notes=tuple(note.replace(TABLE, name) for note in table.notes))


def _saved(folder: Path) -> list[Shard]:
    """The files that `Dataset.save_to_disk` and `DatasetDict.save_to_disk` name."""
    if (folder / DICT).is_file():
        splits = read_json(folder / DICT)["splits"]
        return [Shard(shard.file, split) for split in splits for shard in _saved(folder / split)]
    if not _is_saved(folder):
        return []
    state = read_json(folder / STATE)
    if state.get("_indices_data_files"):
        raise DataError(
            f"{folder}: holds a selection of rows; save it with dataset.flatten_indices().save_to_disk"
        )
    return [Shard(folder / entry["filename"]) for entry in state["_data_files"]]


def _is_saved(folder: Path) -> bool:
    return (folder / STATE).is_file() and (folder / INFO).is_file()


def _parquet(folder: Path) -> list[Shard]:
    """Parquet files with images; `train-00000-of-00002.parquet` names its split."""
    for place in (folder, folder / "data"):
        files = sorted(place.glob("*.parquet"))
        if files and all(map(holds_images, files)):
            return [Shard(file, file.stem.partition("-")[0]) for file in files]
    return []


def _in_parts(folder: Path) -> list[Shard]:
    """The files of folders that are called train, test, ..., as the converted branch of a hub repository has them."""
    parts = sorted(entry for entry in folder.iterdir() if part_of(entry.name) and entry.is_dir())
    return [Shard(shard.file, part.name) for part in parts for shard in _saved(part) or _parquet(part)]


def _unpack(shards: Sequence[Shard], folder: Path) -> None:
    several = len({shard.split for shard in shards}) > 1
    columns: dict[str, list[str]] = {}
    count = 0
    for shard in shards:
        part = part_of(shard.split)
        if several and part is None:
            raise DataError(
                f"{shard.file}: '{shard.split}' is no split; expected train, validation, test, query or gallery"
            )
        for number, row in enumerate(_rows(shard.file), start=1):
            image = row.pop("path")
            if image["bytes"] is None and not image["path"]:
                raise DataError(f"{shard.file}: row {number} has no image; remove it")
            row["path"] = _place(image, shard.file, folder, count)
            if several and part is not None:
                row["split"] = shard.split
            for name in dict.fromkeys([*columns, *row]):
                columns.setdefault(name, [""] * count).append(row.get(name, ""))
            count += 1
    write_frame(columns, folder / TABLE)


def _place(image: dict[str, Any], source: Path, folder: Path, number: int) -> str:
    """Path of an image for the table: written into `folder`, or where it lies already."""
    given, content = image["path"] or "", image["bytes"]
    if content is None:
        return str(source.parent.absolute() / given)
    name = f"{number:07d}{Path(given).suffix}"
    (folder / name).write_bytes(content)
    return name


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    """Rows as `path` (the image as bytes and path), `label`, and the other columns that a table may have, as text."""
    try:
        frame = pl.read_parquet(file) if file.suffix == ".parquet" else pl.read_ipc_stream(file)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{file}: cannot be read ({first_line(error)})") from error
    image = _image_column(frame.schema)
    if image is None:
        raise DataError(f"{file}: no column of images (it has: {', '.join(frame.columns)}); expected 'image'")
    label = next((name for name in LABEL_COLUMNS if name in frame.columns), None)
    names = _class_names(file)
    kept = [
        name for name in frame.columns if name in (*FLAG_COLUMNS, *BOX_COLUMNS, "split") or is_coarse(name)
    ]
    renamed = {name: name for name in kept} | ({} if label is None else {label: "label"})
    for row in frame.select(image, *renamed).iter_rows(named=True):
        value = row[image]
        content = value if isinstance(value, dict) else {"bytes": value, "path": None}
        yield {"path": content} | {
            new: _text(row[old], names.get(old), file, old) for old, new in renamed.items()
        }


def _text(value: Any, names: Sequence[str] | None, file: Path, column: str) -> str:
    if value is None:
        return ""
    if names is None:
        return str(value).lower() if isinstance(value, bool) else str(value)
    if value == -1:  # how `datasets` writes a label that is not known
        return "-1"
    if not 0 <= value < len(names):
        raise DataError(f"{file}: {column} {value} is not one of its {len(names)} class names")
    return str(names[value])


def _image_column(schema: pl.Schema) -> str | None:
    """A column of structs with `bytes` and `path`; or of bytes that is called `image`."""
    structs = [
        name
        for name, dtype in schema.items()
        if isinstance(dtype, pl.Struct) and {field.name for field in dtype.fields} == {"bytes", "path"}
    ]
    named = [name for name in IMAGE_COLUMNS if name in structs or schema.get(name) == pl.Binary]
    return next(iter([*named, *structs]), None)


def _class_names(file: Path) -> dict[str, list[str]]:
    """Names of the classes of each column of class numbers, as `datasets` writes them."""
    if file.suffix == ".parquet":
        written = json.loads(pl.read_parquet_metadata(file).get("huggingface", "{}"))
        features = written.get("info", {}).get("features", {})
    else:
        features = read_json(file.parent / INFO).get("features") or {}
    return {
        name: feature["names"]
        for name, feature in features.items()
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
    }
