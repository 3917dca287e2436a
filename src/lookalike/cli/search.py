"""lookalike search: the images most like these."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from lookalike.cli.common import Device, Runtime, encoder_device
from lookalike.utils.console import one_line

Index = Annotated[Path, typer.Argument(help="An index folder, as `lookalike index` leaves it.")]
Images = Annotated[
    list[str] | None,
    typer.Argument(help="Image files, folders of images, or - for a list of files on standard input."),
]
Sample = Annotated[int, typer.Option(min=0, help="Also query with this many images sampled from the index.")]
K = Annotated[int, typer.Option("-k", min=1, help="How many to show.")]
Where = Annotated[
    str | None, typer.Option("--where", help='A filter, such as "year >= 2020 and label in (a, b)".')
]
Threshold = Annotated[
    float | None,
    typer.Option(
        min=-1,
        max=1,
        help="Similarity from which on a hit is of the query's class; default: the index's own.",
    ),
]
HideUnknown = Annotated[
    bool, typer.Option("--hide-unknown", help="Leave hits below the threshold out instead of marking them.")
]
Collapse = Annotated[
    float | None,
    typer.Option(
        min=-1, max=1, help="Show near-duplicates, at least so similar to each other, once; such as 0.98."
    ),
]
Html = Annotated[Path | None, typer.Option("--html", help="Also write a page with the images.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print a JSON object per query, one per line.")]


def search(
    index: Index,
    images: Images = None,
    k: K = 10,
    where: Where = None,
    threshold: Threshold = None,
    hide_unknown: HideUnknown = False,
    collapse: Collapse = None,
    sample: Sample = 0,
    html: Html = None,
    device: Device = "auto",
    runtime: Runtime = "torch",
    json: JsonLines = False,
) -> None:
    """Find the K images of the index most similar to each IMAGE, most similar first.

    Identical files are one hit with several paths. Hits below the threshold are marked "?"; a query without a
    hit above it is unknown.
    """
    from lookalike.search.image_search import SearchOptions, search_images
    from lookalike.utils.io import to_json

    options = SearchOptions(
        k=k, where=where, threshold=threshold, hide_unknown=hide_unknown, collapse=collapse
    )
    found = search_images(
        index, _files(images or []), options, sample=sample, device=encoder_device(device, runtime)
    )
    if html is not None:
        from lookalike.reporting.hits_page import write_hits

        write_hits(html, found)
    bad = [hits for hits in found if hits.error]
    for hits in found:
        if json:
            print(to_json(hits.to_dict()))
            continue
        if hits.error:
            continue
        print(one_line(hits.query) + ("  unknown" if hits.unknown else ""))
        if not hits.hits:
            print("  no image of the index matches")
        for hit in hits.hits:
            mark = "?" if hit.same_class is False else " "
            also = f"  (+ {len(hit.copies)} identical)" if hit.copies else ""
            gone = "  (file is gone)" if hit.missing else ""
            line = f"{mark} {hit.similarity:.3f}  {one_line(hit.path)}  {one_line(hit.label)}{also}{gone}"
            print(line.rstrip())
    for hits in bad:
        print(f"error: {one_line(hits.error)}", file=sys.stderr)
    if bad:
        raise typer.Exit(1)


def _files(images: list[str]) -> list[Path]:
    """Files as named, those in named folders, and those that standard input lists."""
    from lookalike.data.readers.files import images_below
    from lookalike.errors import ArgumentError

    files: list[Path] = []
    for image in images:
        if image == "-":
            lines = [_without_line_end(line) for line in sys.stdin or () if line.strip()]
            if any("\0" in line for line in lines):
                raise ArgumentError(
                    "standard input lists no files but holds other data; name the image as a file"
                )
            files += map(Path, lines)
        elif Path(image).is_dir():
            inside = [Path(image) / path for path in images_below(Path(image))]
            if not inside:
                raise ArgumentError(f"no image in the folder '{image}'")
            files += inside
        elif image.endswith(".txt") and Path(image).is_file():
            raise ArgumentError(
                f"'{image}' is a text, not an image; files that it lists are read with: search INDEX - < '{image}'"
            )
        else:
            files.append(Path(image))
    return files


def _without_line_end(line: str) -> str:
    """A line's file; the carriage return of a list from Windows is no part of its name."""
    name = line.rstrip("\n")
    return name if Path(name).exists() else name.rstrip("\r")
