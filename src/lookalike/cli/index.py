"""lookalike index: images to a searchable index."""

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
    Runtime,
    encoder_device,
    make_progress,
    reading_options,
    warn_if_unfinished,
)

CHECK = "check"

Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="The index folder; an existing one is brought up to date.")
]
EngineName = Annotated[
    str | None,
    typer.Option("--engine", help="Of a new index; default: exact. See: lookalike list engines"),
]
Uri = Annotated[
    str | None, typer.Option("--uri", help="Of the engine's server or file: postgresql://..., ./file.db")
]
IndexVerify = Annotated[
    bool | None,
    typer.Option(
        "--verify/--no-verify",
        help="Whether published counts are checked and all listed files must be there; default: no, files that are "
        "gone are counted.",
    ),
]
Prune = Annotated[bool, typer.Option("--prune", help="Also forget files that are gone or no longer listed.")]


def index(
    run: RunArgument,
    images: DataArgument,
    out: Out = None,
    engine: EngineName = None,
    uri: Uri = None,
    prune: Prune = False,
    layout: Layout = None,
    verify: IndexVerify = None,
    ignore_label: IgnoreLabel = None,
    on_bad_file: OnBadFile = "skip",
    device: Device = "auto",
    runtime: Runtime = "torch",
    quiet: Quiet = False,
) -> None:
    """Add IMAGES to an index, embedded with the run's model; known images are not embedded again.

    After an interruption it continues where it was. `lookalike index check INDEX` measures the recall and the speed of
    an index's engine, and stores both in the index.
    """
    if str(run) == CHECK and out is None:
        given = {
            "--engine": engine,
            "--uri": uri,
            "--prune": prune or None,
            "--layout": layout,
            "--verify": verify,
        }
        for name, value in given.items():
            if value is not None:
                raise typer.BadParameter(
                    f"{name} is for adding images; `lookalike index check INDEX` takes no options"
                )
        from lookalike.search.check import check_index

        print(check_index(images))
        return
    if out is None:
        raise typer.BadParameter("name the index folder with --out")
    progress = make_progress(quiet)
    warn_if_unfinished(run, progress, f"remove '{out}' and give this command again")
    from lookalike.search.build import build_index

    print(
        build_index(
            run,
            images,
            out,
            engine=engine,
            uri=uri,
            prune=prune,
            on_bad_file=on_bad_file,
            device=encoder_device(device, runtime),
            progress=progress,
            **reading_options(layout, verify, ignore_label),
        )
    )
