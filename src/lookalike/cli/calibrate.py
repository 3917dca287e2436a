"""lookalike calibrate: the similarity from which on two images count as the same class."""

from pathlib import Path
from typing import Annotated

import typer

from lookalike.cli.common import (
    Device,
    IgnoreLabel,
    Json,
    Layout,
    OnBadFile,
    Quiet,
    RunArgument,
    Verify,
    make_progress,
    print_json,
    reading_options,
)

Data = Annotated[str | None, typer.Argument(help="Images to choose it on; default: the run's own.")]
Precision = Annotated[float | None, typer.Option(help="Wanted share of right ones among matching pairs.")]
FalseMatchRate = Annotated[
    float | None, typer.Option(help="Wanted share of different-class pairs that match.")
]
Recall = Annotated[float | None, typer.Option(help="Wanted share of same-class pairs that match.")]
Indexes = Annotated[
    list[Path] | None,
    typer.Option("--index", help="Also store the threshold in this index; may be repeated."),
]
Part = Annotated[str, typer.Option(help="Of the run's own data: auto, validation or test classes.")]


def calibrate(
    run: RunArgument,
    data: Data = None,
    precision: Precision = None,
    false_match_rate: FalseMatchRate = None,
    recall: Recall = None,
    index: Indexes = None,
    part: Part = "auto",
    layout: Layout = None,
    verify: Verify = None,
    ignore_label: IgnoreLabel = None,
    on_bad_file: OnBadFile = "skip",
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Choose the similarity from which on two images count as the same class (default: at precision 0.95).

    It is chosen on classes that the run was not trained on, and stored in the run and in indexes; search and
    serve then mark what lies below as unknown.
    """
    progress = make_progress(quiet)
    from lookalike.errors import ArgumentError
    from lookalike.reporting.similarities import show_threshold
    from lookalike.search.calibrate import calibrate as choose
    from lookalike.search.thresholds import check_target
    from lookalike.training.held_out import PARTS, held_out_images
    from lookalike.training.run_dir import RunDir
    from lookalike.utils.validation import check_choice

    check_choice("part", part, PARTS)
    given = {
        name: value
        for name, value in (
            ("precision", precision),
            ("false_match_rate", false_match_rate),
            ("recall", recall),
        )
        if value is not None
    }
    if len(given) > 1:
        raise ArgumentError(
            f"choose by one of --precision, --false-match-rate and --recall, not {len(given)}"
        )
    target, wanted = next(iter(given.items()), ("precision", 0.95))
    check_target(target, wanted)
    table, where = held_out_images(
        RunDir(run),
        data,
        part=part,
        reading_options=reading_options(layout, verify, ignore_label),
        on_bad_file=on_bad_file,
        progress=progress,
    )
    done = choose(
        run, table, target=target, wanted=wanted, indexes=index or (), device=device, progress=progress
    )
    show_threshold(run, done.threshold.similarity)
    if json:
        print_json(done.to_dict())
        return
    print(f"{done.threshold}; chosen on {where}")
    if done.open_set is not None:
        print(f"with half of these classes in the gallery: {done.open_set}")
