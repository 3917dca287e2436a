"""lookalike push: a trained model on the Hugging Face hub."""

from typing import Annotated

import typer

from lookalike.cli.common import (
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
Images = Annotated[
    str | None, typer.Option("--images", help="Images to check the export on; default: the run's data.")
]


def push(
    run: RunArgument,
    name: Name,
    public: Public = False,
    images: Images = None,
    layout: Layout = None,
    verify: Verify = None,
    ignore_label: IgnoreLabel = None,
) -> None:
    """Upload the run's model as a timm model with a model card, after checking it on real images."""
    from lookalike.export.hub import check_can_push, push_to_hub
    from lookalike.export.source import images_to_check

    check_can_push(name)
    warn_if_unfinished(run, make_progress(), "push it again")
    table = images_to_check(run, images, **reading_options(layout, verify, ignore_label))
    print(push_to_hub(run, name, table, private=not public))
