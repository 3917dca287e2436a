"""lookalike evaluate: a run on images, or anybody's vectors."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lookalike.cli.common import Device, Json, Quiet, make_progress, percent_rows, print_json, print_rows

Run = Annotated[Path | None, typer.Argument(help="A run directory; leave out with --embeddings.")]
Data = Annotated[str | None, typer.Argument(help="What to measure on; default: the run's own test classes.")]
File = Annotated[Path | None, typer.Option(help="Vectors: .npy, .npz or .parquet.")]
Labels = Annotated[Path | None, typer.Option(help="Their labels: .npy, or in the same .npz or .parquet.")]
GalleryFile = Annotated[Path | None, typer.Option(help="Vectors to find, where they are not the queries.")]
GalleryLabels = Annotated[Path | None, typer.Option(help="Their labels.")]
Ks = Annotated[str, typer.Option(help="The K of Recall@K, separated by commas.")]
Similarity = Annotated[str, typer.Option(help="cosine, dot or euclidean.")]
Ties = Annotated[
    str, typer.Option(help="Order of equally similar images: index, optimistic, pessimistic, expected.")
]
Lone = Annotated[str, typer.Option(help="Queries with nothing to find: exclude, or miss.")]
Save = Annotated[
    Path | None, typer.Option(help="Also write FILE.json and FILE.npz, which `lookalike compare` reads.")
]
Clusters = Annotated[bool, typer.Option("--clustering", help="Also NMI and AMI, by k-means.")]


def add(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("evaluate", epilog="Example: lookalike evaluate runs/photos photos --json")(evaluate)


def evaluate(
    run: Run = None,
    data: Data = None,
    embeddings: File = None,
    labels: Labels = None,
    gallery_embeddings: GalleryFile = None,
    gallery_labels: GalleryLabels = None,
    ks: Ks = "1,2,4,8",
    similarity: Similarity = "cosine",
    ties: Ties = "index",
    lone: Lone = "exclude",
    clustering: Clusters = False,
    save: Save = None,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure retrieval: how often, and how well, an image finds its own class among the others."""
    from lookalike.errors import ArgumentError

    try:
        numbers = tuple(int(k) for k in ks.split(","))
    except ValueError as error:
        raise ArgumentError(f"--ks is '{ks}'; expected whole numbers such as 1,2,4,8") from error
    options: dict[str, Any] = {"ks": numbers, "similarity": similarity, "clustering": clustering}
    options |= {"ties": ties, "lone": lone}
    if (run is None) == (embeddings is None):
        raise ArgumentError("name a run directory, or vectors with --embeddings FILE (and --labels FILE)")
    if embeddings is not None:
        from lookalike.evaluation.files import evaluate_files

        result = evaluate_files(embeddings, labels, gallery_embeddings, gallery_labels, **options)
    else:
        from lookalike.training.evaluate_run import evaluate_run
        from lookalike.training.run_dir import RunDir

        assert run is not None
        result = evaluate_run(RunDir(run), data, device=device, progress=make_progress(quiet), **options)
    if save is not None:
        result.save(save)
    if json:
        print_json(result.to_dict())
        return
    print_rows(*percent_rows({"all queries": result.to_dict()}))
    print(result.summary())
