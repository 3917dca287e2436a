"""Finds the columns of a table that mean something, and says what the others are."""

import os
from collections.abc import Sequence

from lookalike.data.image_formats import image_suffixes
from lookalike.data.readers.folder import part_of
from lookalike.data.readers.frames import Frame, header_key
from lookalike.errors import DataError
from lookalike.utils.validation import near_miss

PATH_COLUMNS = ("path", "file_name")
PATH_ALIASES = (
    "filepath", "file_path", "image_path", "img_path", "image_name", "filename", "image_file", "file", "image", "img",
    "image_id", "imageid",
)  # fmt: skip
LABEL_ALIASES = (
    "ground_truth.label", "ground_truth", "label_name", "labelname", "class_name", "category_name",
    "class", "category", "choice", "target", "class_id", "label_id", "category_id", "individual_id", "label_group",
    "landmark_id", "product_id", "item_id", "identity", "species",
)  # fmt: skip
"""What FiftyOne, CVAT, Label Studio, Open Images and competitions call the two columns; read where a table is named
that lacks `path` or `label`."""
SPLIT_ALIASES = ("set", "subset", "partition", "phase", "usage", "data_set", "evaluation_status")
"""What others call the column `split`; read so where it holds nothing but words for parts."""
MAY_SPLIT = frozenset(
    {*SPLIT_ALIASES, "fold", "folds", "kfold", "is_test", "is_train", "is_training", "is_valid", "is_val"}
)
OTHER_BOXES = (("xmin", "ymin", "xmax", "ymax"), ("x1", "y1", "x2", "y2"), ("x", "y", "w", "h"), ("bbox",))
"""What others call the columns of boxes."""
FLAG_COLUMNS = ("is_query", "is_gallery")
BOX_COLUMNS = ("x_1", "y_1", "x_2", "y_2")
OWN_COLUMNS = (*PATH_COLUMNS, "label", "split", *FLAG_COLUMNS, *BOX_COLUMNS)
NAMED = 12
"""So many columns are named in a note."""


def describes_images(frame: Frame) -> bool:
    """Whether a table has the columns path and label."""
    return frame.find(*PATH_COLUMNS) is not None and frame.find("label") is not None


def is_coarse(column: str) -> bool:
    """Whether a column of this name groups the classes."""
    return column in ("super_class", "coarse") or column.startswith("coarse_")


def find_columns(frame: Frame) -> tuple[str | None, str | None]:
    """The columns that are read as path and label where a table is named."""
    return frame.find(*PATH_COLUMNS, *PATH_ALIASES), frame.find("label", *LABEL_ALIASES)


def find_split(frame: Frame) -> str | None:
    """The column that is read as split."""
    column = frame.find("split")
    if column is not None:
        return column
    named = [name for name in (frame.find(alias) for alias in SPLIT_ALIASES) if name is not None]
    return next((name for name in named if all(part_of(word or "") for word in frame.columns[name])), None)


def hint_on_boxes(frame: Frame) -> str:
    """How boxes are cut out, where columns of other names look like boxes."""
    if not any(all(frame.find(name) or name in frame.nested for name in names) for names in OTHER_BOXES):
        return ""
    return f"; to cut boxes out, call their columns {', '.join(BOX_COLUMNS)} (left, top, right, bottom, in pixels)"


def choose_columns(frame: Frame, labeled: bool) -> tuple[str, str | None]:
    """The columns of paths and of labels, which may be None without `labeled`.

    Raises:
        DataError: one is missing.
    """
    path_column, label_column = find_columns(frame)
    if path_column is None or (labeled and label_column is None):
        lacking = "path" if path_column is None else "label"
        for name in frame.nested:
            if name.casefold() in (lacking, "file_name"):
                raise DataError(
                    f"{frame.file}: the column '{name}' holds lists, objects or bytes; expected text"
                )
        single = len(frame.columns) == 1 and not frame.nested
        hint = _hint_on_header(frame) or (
            "; separate columns with , ; | or tabs" if single else near_miss(lacking, frame.columns)
        )
        content = f"; of bytes, lists or objects: {_listed(frame.nested)}" if frame.nested else ""
        raise DataError(
            f"{frame.file}: no column '{lacking}'{hint} (it has: {_listed([*frame.columns])}{content}); expected "
            f"path,label: rename the column of {'image files' if lacking == 'path' else 'class names'}"
        )
    return path_column, label_column


def _hint_on_header(frame: Frame) -> str:
    """What is wrong with the first row, where that can be seen: it is no header, or the header stands further below."""
    if any("/" in name or os.path.splitext(name)[1].lower() in image_suffixes() for name in frame.columns):
        return "; its first row is an image, not a header: put the line path,label above it"
    for at in range(min(NAMED, len(frame))):
        if any((column[at] or "").strip().casefold() in PATH_COLUMNS for column in frame.columns.values()):
            return f"; {frame.place(at)} looks like the header: remove what stands above it"
    return ""


def notes_on_columns(frame: Frame, path: str, label: str | None) -> list[str]:
    """Notes on columns that are read under another name, and on those that are not used."""
    used = {name for name in frame.columns if header_key(name) in OWN_COLUMNS or is_coarse(name)}
    read_as = {path: "path", label: "label", find_split(frame): "split"}
    unused = [name for name in (*frame.columns, *frame.nested) if name not in (*used, *read_as)]
    notes = [
        f"{frame.file.name}: the column {name} is read as {meaning}"
        for name, meaning in read_as.items()
        if name is not None and name not in used
    ]
    if unused:
        notes.append(f"{frame.file.name}: columns that are not used: {_listed(unused)}{hint_on_boxes(frame)}")
    split = [name for name in unused if header_key(name) in MAY_SPLIT]
    if split and find_split(frame) is None:
        notes.append(
            f"{frame.file.name}: {split[0]} may say what is for training, but is not used; to use it, add a column "
            "split with train, validation and test"
        )
    return notes


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"
