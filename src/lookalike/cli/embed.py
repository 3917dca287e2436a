"""lookalike embed: images to vectors."""

from pathlib import Path
from typing import Annotated

import typer

from lookalike.cli.common import DataArgument, Device, Quiet, RunArgument, make_progress

Out = Annotated[
    Path, typer.Option("--out", "-o", help="FILE.npz (vectors, labels, paths), FILE.npy or FILE.parquet.")
]
Views = Annotated[
    int | None,
    typer.Option(
        help="1: each image alone; 2: averaged with its mirror image, in twice the time. Default: as the model was "
        "measured; an index holds only vectors made that way."
    ),
]


def add(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("embed", epilog="Example: lookalike embed runs/photos photos --out photos.npz")(embed)


def embed(
    run: RunArgument,
    data: DataArgument,
    out: Out,
    views: Views = None,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Embed every image of DATA with the run's model; the vectors stream to the file."""
    progress = make_progress(quiet)
    from lookalike.data.read import read
    from lookalike.embedding import embed_to_file
    from lookalike.models.checkpoint import load_model
    from lookalike.utils.device import pick_device

    model, _ = load_model(run)
    if views is not None:
        model.set_views(views)
    place = pick_device(device)
    count = embed_to_file(model.to(place), read(data, labeled=False), out, device=place, progress=progress)
    each = "" if model.config.views == 1 else ", image and mirror image averaged"
    print(f"{count} images, {model.embedding_dim}-d{each}, in {out}")
