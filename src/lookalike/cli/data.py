"""lookalike data: add data sets under a name, check them, split them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lookalike.cli.common import (
    DataArgument,
    Device,
    IgnoreLabel,
    Json,
    Layout,
    Quiet,
    Verify,
    make_progress,
    print_json,
    print_notes,
    print_rows,
    reading_options,
)
from lookalike.utils.console import one_line
from lookalike.utils.progress import Progress

if TYPE_CHECKING:
    from lookalike.data.data_report import DataReport
    from lookalike.data.dataset import LabeledImages
    from lookalike.models.embedder import Embedder

app = typer.Typer(
    help="Data sets: add under a name, check, split.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog="Their names: lookalike list datasets",
)


@app.command("add", epilog="Example: lookalike data add photos photos.zip")
def add(
    name: Annotated[str, typer.Argument(help="What to call the data set from now on.")],
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            help="An archive (or several that belong together) or its address, a folder, or a table. For "
            "cub200, sop and omniglot none is needed: they are fetched."
        ),
    ] = None,
    checksum: Annotated[
        str | None, typer.Option(help="md5:... or sha256:... of the file at an address.")
    ] = None,
    layout: Layout = None,
    verify: Verify = None,
    ignore_label: IgnoreLabel = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Unpack a data set into the cache, check its published counts, and give it a name.

    The name stands for the data read with these options. A published data set's own name (see `lookalike list
    datasets`) insists on that layout.
    """
    from dataclasses import asdict

    from lookalike.data.add import add_dataset

    options = reading_options(layout, verify, ignore_label)
    entry = add_dataset(name, sources or [], checksum=checksum, progress=make_progress(quiet), **options)
    if json:
        print_json({"name": name, **asdict(entry)})
    else:
        print(f"{name}: {entry.images:,} images, {entry.classes:,} classes, in {entry.path}")


@app.command("check", epilog="Example: lookalike data check photos --html check.html")
def check(
    data: DataArgument,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with thumbnails of everything found.")
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(
            help="Write a table (CSV, Parquet, JSON lines) without the images that have an error, and next to it "
            "NAME.removed.csv with one reason per image left out."
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Another data set; report images that are also in it.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="A run directory; report likely mislabeled images and outliers by its embeddings."),
    ] = None,
    join_labels: Annotated[
        bool,
        typer.Option("--join-labels", help="Join class names that differ only in case, spaces or zeros."),
    ] = False,
    layout: Layout = None,
    verify: Verify = None,
    ignore_label: IgnoreLabel = None,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Decode every file and report broken, blank and repeated images, wrong labels, leaks and odd formats.

    Exit code 1 when something was found that spoils training or scores. Images without labels are checked too.
    """
    from lookalike.data.labels import join_labels as join
    from lookalike.data.read import read
    from lookalike.data.readers.write_frame import check_suffix
    from lookalike.data.validate import check_data, without
    from lookalike.errors import ArgumentError

    progress = make_progress(quiet)
    if write is not None:
        check_suffix(write)
        if write.exists() and write.resolve() == Path(data).resolve():
            raise ArgumentError(f"--write {write} would replace the table that is checked; name another file")
    if html is not None and html.is_dir():
        raise ArgumentError(f"--html {html} is a folder; name a file in it")
    embedder = None
    if model is not None:
        from lookalike.models.checkpoint import load_model

        embedder, _ = load_model(model)
    table = read(data, labeled=False, **reading_options(layout, verify, ignore_label))
    table = join(table) if join_labels else table
    other = None if against is None else read(against, labeled=False, **reading_options(None, verify, None))
    report = check_data(table, against=other, progress=progress)
    if embedder is not None:
        report = _with_model(report, table, embedder, device, progress)
    if write is not None:
        write_clean(write, table, without(table, report), report.reasons)
    if html is not None:
        from lookalike.reporting.data_page import write_data_page

        write_data_page(html, table, report)
    if json:
        print_json(report.to_dict())
    else:
        print("\n".join(map(one_line, report.lines())))
    if not report.clean:
        raise typer.Exit(1)


def write_clean(file: Path, table: "LabeledImages", clean: "LabeledImages", reasons: dict[str, str]) -> None:
    """Writes the clean table, and what was removed with a reason per row where something was."""
    from lookalike.data.readers.written_tables import write_removed, write_table

    write_table(clean, file)
    removed = file.with_name(f"{file.stem}.removed.csv")
    removed.unlink(missing_ok=True)
    if reasons:
        rows = [row for row, path in enumerate(table.paths) if path in reasons]
        write_removed(table.rows(rows), removed, [reasons[table.paths[row]] for row in rows])


def _with_model(
    report: "DataReport", table: "LabeledImages", embedder: "Embedder", device: str, progress: Progress
) -> "DataReport":
    """The report with what the embeddings of a run's model say."""
    from lookalike.data.screen import drop_unreadable
    from lookalike.embedding import embed
    from lookalike.evaluation.label_quality import judge_labels
    from lookalike.reporting.label_findings import label_findings
    from lookalike.utils.device import pick_device

    readable, _ = drop_unreadable(table)
    target = pick_device(device)
    embeddings = embed(embedder.to(target), readable, device=target, progress=progress)
    return report.plus(label_findings(readable, judge_labels(embeddings.matrix, embeddings.labels)))


@app.command("split", epilog="Example: lookalike data split photos --out split.csv")
def split(
    data: DataArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write label,split; saved as split.csv in the image folder it is used as the split."
        ),
    ] = None,
    test_fraction: Annotated[
        float | None, typer.Option(help="Fraction of classes in the test split. Default: as `train` does.")
    ] = None,
    validation_fraction: Annotated[
        float | None,
        typer.Option(help="Fraction of the other classes in the validation split. Default: as `train` does."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Chooses the classes, the same on every machine. Default: as `train` does."),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            help="Of --out: classes (label,split), or oml: the CSV of Open Metric Learning, a row per image, in which "
            "the test classes are its validation."
        ),
    ] = "classes",
    source: Annotated[
        str | None,
        typer.Option(
            help="auto, named (require the data's own split) or hold_out (ignore it). Default: auto."
        ),
    ] = None,
    layout: Layout = None,
    verify: Verify = None,
    ignore_label: IgnoreLabel = None,
    json: Json = False,
) -> None:
    """Show which classes train, validate and test in `lookalike train`, with a digest that identifies the split."""
    from lookalike.config.experiment import Experiment
    from lookalike.data.read import read
    from lookalike.data.readers.oml import write_oml
    from lookalike.data.readers.split_files import write_split_file
    from lookalike.utils.validation import check_choice

    check_choice("format", format, ("classes", "oml"))

    given = {
        "data.test_fraction": test_fraction,
        "data.validation_fraction": validation_fraction,
        "data.split": source,
        "seed": seed,
    }
    experiment = Experiment().override(
        f"{name}={value}" for name, value in given.items() if value is not None
    )
    table = read(data, **reading_options(layout, verify, ignore_label))
    print_notes(table.notes)
    split = experiment.split(table)
    tables = {"train": split.train, "validation": split.validation, "test": split.test}
    if out is not None and format == "oml":
        write_oml(out, split)
    elif out is not None:
        write_split_file(out, tables)
    counts: dict[str, Any] = {n: {"images": len(t), "classes": t.num_classes} for n, t in tables.items()}
    if json:
        print_json({**counts, "source": split.source, "digest": split.digest()})
        return
    print_rows(
        ["split", "images", "classes"],
        [[n, f"{c['images']:,}", f"{c['classes']:,}"] for n, c in counts.items()],
    )
    print_notes([split.unused] if split.unused else [])
    print(f"test classes: {split.source}\ndigest: {split.digest()}")
