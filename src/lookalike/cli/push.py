"""lookalike push: a trained model on the Hugging Face hub."""

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

Name = Annotated[str, typer.Argument(help="OWNER/NAME of the repository; made if it does not exist.")]
Public = Annotated[
    bool,
    typer.Option(
        "--public",
        help="Anyone may see a new repository; default: only its owner. An existing one stays as visible as it is.",
    ),
]


License = Annotated[
    str | None,
    typer.Option(
        "--license",
        help="The hub's identifier of a license, such as apache-2.0; default: that of the pretrained weights.",
    ),
]


def push(
    run: RunArgument,
    name: Name,
    public: Public = False,
    images: CheckImages = None,
    layout: Layout = None,
    verify: Verify = None,
    ignore_label: IgnoreLabel = None,
    license: License = None,
) -> None:
    """Upload the run's model as a timm model with a model card, after checking it on real images."""
    from lookalike.export.hub import push_to_hub

    progress = make_progress()
    warn_if_unfinished(run, progress, "push it again")
    address = push_to_hub(
        run,
        name,
        images=images,
        options=reading_options(layout, verify, ignore_label),
        license_name=license,
        private=not public,
        progress=progress,
    )
    print(address)
