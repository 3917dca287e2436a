"""lookalike search: the images most like these."""

from pathlib import Path
from typing import Annotated

import typer

from lookalike.cli.common import Device, Json, print_json

Index = Annotated[Path, typer.Argument(help="An index folder, as `lookalike index` leaves it.")]
Images = Annotated[list[Path] | None, typer.Argument(help="The images to look for.")]
Sample = Annotated[int, typer.Option(min=0, help="Also ask with so many of the index's own images.")]
K = Annotated[int, typer.Option("-k", min=1, help="How many to show.")]
Html = Annotated[Path | None, typer.Option("--html", help="Also write a page with the images.")]


def add(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        "search", epilog="Example: lookalike search photos.index photos/0/0.png -k 3 --html hits.html"
    )(search)


def search(
    index: Index,
    images: Images = None,
    k: K = 10,
    sample: Sample = 0,
    html: Html = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Find the K images of the index most similar to each IMAGE, most similar first."""
    from lookalike.search.image_search import search_images

    found = search_images(index, images or [], k=k, sample=sample, device=device)
    if html is not None:
        from lookalike.reporting.hits_page import write_hits

        write_hits(html, found)
    if json:
        print_json([hits.to_dict() for hits in found])
        return
    for hits in found:
        print(hits.query)
        for hit in hits.hits:
            print(f"  {hit.similarity:.3f}  {hit.path}  {hit.label}")
