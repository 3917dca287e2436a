"""lookalike index: pictures to a searchable index."""

from pathlib import Path
from typing import Annotated

import typer

from lookalike.cli.common import DataArgument, Device, Quiet, RunArgument, progress_of

Out = Annotated[
    Path, typer.Option("--out", "-o", help="The index folder; an existing one is brought up to date.")
]


def add(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("index", epilog="Example: lookalike index runs/photos photos --out photos.index")(index)


def index(
    run: RunArgument, pictures: DataArgument, out: Out, device: Device = "auto", quiet: Quiet = False
) -> None:
    """Index PICTURES with the run's model; pictures that did not change are not embedded again."""
    progress = progress_of(quiet)
    from lookalike.search.image_search import build_index

    print(build_index(run, pictures, out, device=device, progress=progress))
