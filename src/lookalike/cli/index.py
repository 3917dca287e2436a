"""lookalike index: images to a searchable index."""

from pathlib import Path
from typing import Annotated

import typer

from lookalike.cli.common import DataArgument, Device, Quiet, RunArgument, make_progress

Out = Annotated[
    Path, typer.Option("--out", "-o", help="The index folder; an existing one is brought up to date.")
]


def add(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("index", epilog="Example: lookalike index runs/photos photos --out photos.index")(index)


def index(
    run: RunArgument, images: DataArgument, out: Out, device: Device = "auto", quiet: Quiet = False
) -> None:
    """Index IMAGES with the run's model; images that did not change are not embedded again."""
    progress = make_progress(quiet)
    from lookalike.search.image_search import build_index

    print(build_index(run, images, out, device=device, progress=progress))
