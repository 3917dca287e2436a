"""Rows of a JSON file that is one document: an array of objects, or annotations as COCO has them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]
HEAD = 4096


def looks_like_coco(file: Path) -> bool:
    """Whether the first bytes of a JSON file are those of COCO annotations."""
    with open(file, "rb") as stream:
        head = stream.read(HEAD)
    return head.lstrip()[:1] == b"{" and any(
        key in head for key in (b'"images"', b'"annotations"', b'"licenses"')
    )


def rows_of_document(text: str) -> list[Row] | None:
    """One object per row; None where `text` is not one document, as of JSON lines.

    Raises:
        ValueError: a document of another kind.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        if "Extra data" in str(error):
            return None
        raise ValueError(f"it is not JSON: {error}") from error
    if isinstance(document, list) and all(isinstance(row, dict) for row in document):
        return document
    if isinstance(document, dict) and {"images", "annotations"} <= set(document):
        try:
            return _annotations(document)
        except KeyError as error:
            image = "" if isinstance(error.args[0], str) else "the image "
            raise ValueError(f"its COCO annotations lack {image}{error}") from error
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"its COCO annotations are damaged ({error!r})") from error
    raise ValueError("it is neither an array of objects such as {path, label} nor COCO annotations")


def _annotations(document: Mapping[str, Any]) -> list[Row]:
    """A row per annotation: path, label, and its box where every annotation has one."""
    path_of = {image["id"]: image["file_name"] for image in document["images"]}
    name_of = {category["id"]: category["name"] for category in document.get("categories", [])}
    annotations = document["annotations"]
    boxed = all(annotation.get("bbox") for annotation in annotations)
    rows = []
    for annotation in annotations:
        category = annotation["category_id"]
        row = {"path": path_of[annotation["image_id"]], "label": str(name_of.get(category, category))}
        if boxed:
            left, top, width, height = annotation["bbox"]
            if max(left + width, top + height) <= 1 and not float(left + width).is_integer():
                raise ValueError(f"the box {annotation['bbox']} is in fractions of the image, not in pixels")
            x, y = max(round(left), 0), max(round(top), 0)
            row |= {
                "x_1": x,
                "y_1": y,
                "x_2": max(round(left + width), x + 1),
                "y_2": max(round(top + height), y + 1),
            }
        rows.append(row)
    return rows
