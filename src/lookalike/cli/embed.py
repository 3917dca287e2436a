"""lookalike embed: vectors of images, as files."""

from pathlib import Path
from typing import Annotated

import typer

from lookalike.cli.common import (
    DataArgument,
    Device,
    IgnoreLabel,
    Layout,
    OnBadFile,
    Quiet,
    RunArgument,
    Verify,
    make_progress,
    reading_options,
)

Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="FILE.npz (vectors, labels, paths), FILE.npy or FILE.parquet."),
]
Projector = Annotated[
    Path | None, typer.Option("--projector", help="Folder for TensorBoard's projector, with thumbnails.")
]
Views = Annotated[
    int | None,
    typer.Option(
        help="1: each image alone; 2: averaged with its mirror image, in twice the time. Default: as the model was "
        "measured; an index holds only vectors made that way."
    ),
]


def embed(
    run: RunArgument,
    data: DataArgument,
    out: Out = None,
    projector: Projector = None,
    views: Views = None,
    layout: Layout = None,
    verify: Verify = None,
    ignore_label: IgnoreLabel = None,
    on_bad_file: OnBadFile = "skip",
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Embed every image of DATA with the run's model, into a file or for TensorBoard's projector."""
    progress = make_progress(quiet)
    from lookalike.data.load import load_images
    from lookalike.embedding import FORMATS, embed_to_file
    from lookalike.embedding import embed as embed_table
    from lookalike.errors import ArgumentError
    from lookalike.export.projector import write_projector
    from lookalike.models.checkpoint import load_model
    from lookalike.utils.device import pick_device
    from lookalike.utils.validation import check_choice

    if out is None and projector is None:
        raise ArgumentError("name where the vectors go: --out FILE.npz or --projector FOLDER (or both)")
    if out is not None:
        check_choice(f"the format of '{out}'", out.suffix, FORMATS)
    model, _ = load_model(run)
    if views is not None:
        model.set_views(views)
    target = pick_device(device)
    model.to(target)
    table = load_images(
        data,
        labeled=False,
        **reading_options(layout, verify, ignore_label),
        on_bad_file=on_bad_file,
        progress=progress,
    )
    each = "" if model.config.views == 1 else ", image and mirror image averaged"
    said = f"{len(table)} images, {model.embedding_dim}-d{each}"
    if out is not None:
        embeddings = embed_to_file(model, table, out, device=target, progress=progress)
        print(f"{said}, in {out}")
    else:
        embeddings = embed_table(model, table, device=target, progress=progress)
    if projector is not None:
        write_projector(projector, embeddings, table)
        print(f"{said}, for: tensorboard --logdir {projector}")
