"""Recognizes folders of images whose classes lie in files next to them, so that folders are not read as classes."""

from pathlib import Path

from lookalike.data.readers.files import inside_single_folder, subfolders

FEW = 12
"""Folders in which annotations are looked for."""


def annotation_format(folder: Path) -> str | None:
    """What annotates the images in `folder`, where their folders say nothing about their classes."""
    place = inside_single_folder(folder)
    inside = sorted(subfolders(place, FEW))
    for at in (place, *inside):
        names = {entry.name.casefold(): entry for entry in subfolders(at, FEW)}
        if {"jpegimages", "annotations"} <= names.keys():
            return "Pascal VOC"
        if {"images", "labels"} <= names.keys() and _holds_text(names["labels"]):
            return "YOLO"
    return None


def _holds_text(folder: Path) -> bool:
    """Whether text files and no images lie in a folder, or in the folders in it."""
    entries = [entry for at in (folder, *subfolders(folder, FEW)) for entry in at.glob("*.*")]
    return bool(entries) and all(entry.suffix.lower() in (".txt", ".cache", ".yaml") for entry in entries)
