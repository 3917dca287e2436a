"""lookalike evaluate: retrieval metrics of a run, or of embeddings in files."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lookalike.cli.common import (
    Device,
    IgnoreLabel,
    Json,
    Layout,
    OnBadFile,
    Quiet,
    Verify,
    make_progress,
    metric_rows,
    print_json,
    print_rows,
    reading_options,
)

Run = Annotated[Path | None, typer.Argument(help="A run directory; leave it out with --embeddings.")]
Data = Annotated[str | None, typer.Argument(help="Images to evaluate on; default: the run's test classes.")]
File = Annotated[Path | None, typer.Option(help="Embeddings: .npy, .npz or .parquet.")]
Labels = Annotated[
    Path | None, typer.Option(help="Their labels; not for an .npz or .parquet that holds them.")
]
GalleryFile = Annotated[
    Path | None,
    typer.Option(help="Embeddings of a separate gallery; default: each query against all others."),
]
GalleryLabels = Annotated[Path | None, typer.Option(help="Labels of the gallery.")]
Ks = Annotated[str | None, typer.Option(help="The K of Recall@K, separated by commas; default: 1,2,4,8.")]
Similarity = Annotated[str, typer.Option(help="cosine, dot or euclidean.")]
NoMatch = Annotated[
    str, typer.Option(help="Queries without a match in the gallery. exclude: leave out; miss: count as 0.")
]
Save = Annotated[
    Path | None, typer.Option(help="Also write FILE.json and FILE.npz, which `lookalike compare` reads.")
]
Clusters = Annotated[bool, typer.Option("--clustering", help="Also NMI and AMI, by k-means.")]
OpenSet = Annotated[
    bool,
    typer.Option(
        "--open-set",
        help="Also how well queries whose class is not in the gallery are separated from the others.",
    ),
]


def evaluate(
    run: Run = None,
    data: Data = None,
    embeddings: File = None,
    labels: Labels = None,
    gallery_embeddings: GalleryFile = None,
    gallery_labels: GalleryLabels = None,
    ks: Ks = None,
    similarity: Similarity = "cosine",
    no_match: NoMatch = "exclude",
    ignore_label: IgnoreLabel = None,
    clustering: Clusters = False,
    open_set: OpenSet = False,
    layout: Layout = None,
    verify: Verify = None,
    on_bad_file: OnBadFile = "skip",
    save: Save = None,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compute retrieval metrics (Recall@K, MAP@R, R-precision, MRR) of a run, or of embeddings in files."""
    from lookalike.errors import ArgumentError

    options: dict[str, Any] = {
        "similarity": similarity,
        "no_match": no_match,
        "clustering": clustering,
        "open_set": open_set,
    }
    if save is not None:
        from lookalike.evaluation.result import check_folder

        check_folder(save)
    if ks is not None:
        options["ks"] = _whole_numbers(ks)
    if (run is None) == (embeddings is None):
        either = "name a run directory, or give --embeddings FILE (and --labels FILE)"
        raise ArgumentError(either if run is None else f"{either}, not both")
    if run is not None and run.is_file():
        raise ArgumentError(
            f"'{run}' is a file, no run directory; embeddings in files are measured with --embeddings FILE --labels "
            "FILE"
        )
    of_files = {
        "--labels": labels,
        "--gallery-embeddings": gallery_embeddings,
        "--gallery-labels": gallery_labels,
    }
    of_runs = {"--layout": layout, "--verify or --no-verify": verify}
    for name, value in (of_files if embeddings is None else of_runs).items():
        if value is not None:
            place = "--embeddings" if embeddings is None else "a run directory"
            raise ArgumentError(f"{name} goes with {place}; drop it")
    if gallery_labels is not None and gallery_embeddings is None:
        raise ArgumentError("--gallery-labels goes with --gallery-embeddings; give that too")
    from lookalike.evaluation import check_options

    check_options(**{name: options[name] for name in ("ks", "similarity", "no_match") if name in options})
    if embeddings is not None:
        from lookalike.evaluation.files import evaluate_files
        from lookalike.utils.device import pick_device

        result = evaluate_files(
            embeddings,
            labels,
            gallery_embeddings,
            gallery_labels,
            ignore_labels=ignore_label or (),
            device=pick_device(device),
            **options,
        )
    else:
        from lookalike.training.evaluate_run import evaluate_run
        from lookalike.training.run_dir import RunDir

        assert run is not None
        result = evaluate_run(
            RunDir(run),
            data,
            reading_options=reading_options(layout, verify, ignore_label),
            on_bad_file=on_bad_file,
            device=device,
            progress=make_progress(quiet),
            **options,
        )
    if save is not None:
        result.save(save)
    if json:
        print_json(result.to_dict())
        return
    print_rows(*metric_rows({"mean over queries": result.values, "mean over classes": result.class_average}))
    print(result.summary())


def _whole_numbers(ks: str) -> tuple[int, ...]:
    from lookalike.errors import ArgumentError

    try:
        return tuple(int(k) for k in ks.split(","))
    except ValueError as error:
        raise ArgumentError(f"--ks is '{ks}'; expected whole numbers such as 1,2,4,8") from error
