"""The noun `data`: add data sets under a name, list them, check them, split them."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lookalike.cli.common import (
    DataArgument,
    IgnoreLabel,
    Json,
    Layout,
    Quiet,
    Verify,
    make_progress,
    print_json,
    print_notes,
    print_rows,
)

app = typer.Typer(
    help="Data sets: add under a name, list, check, split.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog="Begin with: lookalike data list",
)


@app.command("list", epilog="Example: lookalike data list")
def list_data(json: Json = False) -> None:
    """Data sets that can be named, and published ones that are recognized by their layout."""
    from lookalike.data.registry import known_datasets

    rows = known_datasets()
    if json:
        print_json(rows)
        return
    widest = max(len(row["name"]) for row in rows)
    for row in rows:
        print(f"{row['name']:<{widest}}  {row['state']:<10}  {row['about']}")


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
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Unpack a data set into the cache, check its published counts, and give it a name.

    A published data set's own name (see `lookalike data list`) insists on that layout.
    """
    from dataclasses import asdict

    from lookalike.data.add import add_dataset

    entry = add_dataset(name, sources or [], checksum=checksum, progress=make_progress(quiet))
    if json:
        print_json({"name": name, **asdict(entry)})
    else:
        print(f"{name}: {entry.images:,} images, {entry.classes:,} classes, in {entry.path}")


@app.command("check", epilog="Example: lookalike data check photos")
def check(
    data: DataArgument,
    out: Annotated[
        Path | None,
        typer.Option(help="Write a table (CSV, Parquet, JSON lines) without the harmful images."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 when something harmful is found.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Read every file: broken images, duplicates, wrong labels, leaks between the split, tiny classes."""
    from lookalike.data.read import read
    from lookalike.data.readers.tables import write_table
    from lookalike.data.validate import check_data, without

    table = read(data)
    report = check_data(table, progress=make_progress(quiet))
    if json:
        print_json(report.to_dict())
    else:
        print("\n".join(report.lines()))
    if out is not None:
        write_table(without(table, report), out)
    if strict and not report.clean:
        raise typer.Exit(1)


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
    source: Annotated[
        str | None,
        typer.Option(
            help="auto, named (require the data's own split) or hold_out (ignore it). Default: auto."
        ),
    ] = None,
    layout: Layout = None,
    verify: Verify = True,
    ignore_label: IgnoreLabel = None,
    json: Json = False,
) -> None:
    """Show which classes train, validate and test in `lookalike train`, with a digest that identifies the split."""
    from lookalike.config.experiment import Experiment
    from lookalike.data.read import read
    from lookalike.data.readers.split_files import write_split_file

    given = {
        "data.test_fraction": test_fraction,
        "data.validation_fraction": validation_fraction,
        "data.split": source,
        "seed": seed,
    }
    experiment = Experiment().override(
        f"{name}={value}" for name, value in given.items() if value is not None
    )
    table = read(data, layout=layout, verify=verify, ignore_labels=ignore_label or ())
    print_notes(table.notes)
    split = experiment.split(table)
    tables = {"train": split.train, "validation": split.validation, "test": split.test}
    if out is not None:
        write_split_file(out, tables)
    counts: dict[str, Any] = {n: {"images": len(t), "classes": t.num_classes} for n, t in tables.items()}
    if json:
        print_json({**counts, "source": split.source, "digest": split.digest()})
        return
    print_rows(
        ["split", "images", "classes"],
        [[n, f"{c['images']:,}", f"{c['classes']:,}"] for n, c in counts.items()],
    )
    print(f"test classes: {split.source}\ndigest: {split.digest()}")
