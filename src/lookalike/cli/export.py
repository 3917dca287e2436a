"""lookalike export: a trained model for other tools."""

import copy
from pathlib import Path
from typing import Annotated

import typer

from lookalike.cli.common import (
    CheckImages,
    IgnoreLabel,
    Layout,
    RunArgument,
    Verify,
    make_progress,
    reading_options,
    warn_if_unfinished,
)

Timm = Annotated[
    Path | None,
    typer.Option("--timm", help="Folder for timm.create_model('local-dir:FOLDER', pretrained=True)."),
]
Onnx = Annotated[Path | None, typer.Option("--onnx", help="ONNX file: uint8 images to unit vectors.")]
Pt2 = Annotated[Path | None, typer.Option("--pt2", help="File for torch.export.load.")]


def export(
    run: RunArgument,
    timm: Timm = None,
    onnx: Onnx = None,
    pt2: Pt2 = None,
    images: CheckImages = None,
    layout: Layout = None,
    verify: Verify = None,
    ignore_label: IgnoreLabel = None,
) -> None:
    """Write the run's model for other tools, and check the result on real images outside this package."""
    from lookalike.errors import ArgumentError
    from lookalike.export.checked import export_checked
    from lookalike.export.deployed import description
    from lookalike.export.source import images_to_check
    from lookalike.models.checkpoint import load_model

    if timm is None and onnx is None and pt2 is None:
        raise ArgumentError("nothing to export; give --timm FOLDER, --onnx FILE or --pt2 FILE (or several)")
    model, _ = load_model(run)
    table = images_to_check(run, images, **reading_options(layout, verify, ignore_label))
    warn_if_unfinished(run, make_progress(), "export it again")
    if timm is not None:
        alone = copy.deepcopy(model)
        alone.set_views(1)
        described = f"image embeddings by lookalike, compare by cosine; {run.name}"
        print(f"{timm}: {export_checked('timm', alone, timm, table, description=described)}")
        if model.config.views > 1:
            print(
                "  timm embeds each image alone; this run averages it with its mirror image (--onnx and --pt2 do too)"
            )
    if onnx is not None:
        print(f"{onnx}: {export_checked('onnx', model, onnx, table)}")
    if pt2 is not None:
        print(f"{pt2}: {export_checked('pt2', model, pt2, table)}")
    if timm is None:
        for key, value in description(model).items():
            print(f"  {key}: {value}")
