"""Options and output that several commands share."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from lookalike.utils.console import one_line
from lookalike.utils.io import to_json
from lookalike.utils.progress import BarProgress, LineProgress, Progress, WarningsOnly

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Device = Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu, cuda or mps.")]
Runtime = Annotated[
    str,
    typer.Option(
        help="torch, or onnx: onnxruntime on the CPU, faster there (pip install 'lookalike[onnx]')."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error, only warnings.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="A setting, such as loss.scale=16; may be repeated. See: lookalike list settings"
    ),
]
RunArgument = Annotated[Path, typer.Argument(help="A run directory, as `lookalike train` leaves it.")]
DataArgument = Annotated[
    str,
    typer.Argument(
        help="glyphs; a folder DATA/<class>/*.jpg; a table (CSV, Parquet, JSON lines) with path and label; a known "
        "benchmark's folder; or an archive of any of these."
    ),
]

Layout = Annotated[
    str | None,
    typer.Option(
        help="Insist on a layout (see `lookalike list datasets`), or `folder`: class folders, whatever else is there."
    ),
]
Verify = Annotated[
    bool | None,
    typer.Option(
        "--verify/--no-verify",
        help="Whether published counts are checked and all listed files must be there; default: yes.",
    ),
]
IgnoreLabel = Annotated[
    list[str] | None,
    typer.Option("--ignore-label", help="Leave out images with this label, such as --ignore-label=-1."),
]
CheckImages = Annotated[
    str | None, typer.Option("--images", help="Images to check the export on; default: the run's data.")
]
OnBadFile = Annotated[
    str,
    typer.Option(
        "--on-bad-file", help="skip: leave out images that cannot be decoded and name them; fail: stop."
    ),
]


def reading_options(
    layout: str | None, verify: bool | None, ignore_label: Sequence[str] | None
) -> dict[str, Any]:
    """The arguments of `read` that were given as options; all others stay as they are by default or in the run."""
    options = {"layout": layout, "verify": verify, "ignore_labels": tuple(ignore_label or ()) or None}
    return {name: value for name, value in options.items() if value is not None}


def make_progress(quiet: bool = False) -> Progress:
    """Bars on a terminal, lines elsewhere, warnings alone when quiet."""
    if quiet:
        return WarningsOnly()
    return BarProgress() if sys.stderr.isatty() else LineProgress()


def encoder_device(device: str, runtime: str) -> str:
    """The device of an encoder: "onnx" for onnxruntime, which runs on the CPU."""
    from lookalike.errors import ArgumentError
    from lookalike.search.encoder import ONNX
    from lookalike.utils.validation import check_choice

    check_choice("runtime", runtime, ("torch", ONNX))
    if runtime == ONNX and device not in ("auto", "cpu"):
        raise ArgumentError(f"--runtime onnx runs on the CPU; drop --device {device}")
    return ONNX if runtime == ONNX else device


def warn_if_unfinished(run: Path, progress: Progress, advice: str) -> None:
    """Says that a run's model will be replaced by a better one, and what to do then."""
    from lookalike.training.run_dir import RunDir

    folder = RunDir(run)
    if folder.holds_run() and not folder.is_finished():
        progress.warn(f"the run '{run}' has not ended, and this is its model so far; when it has, {advice}")


def print_notes(notes: Iterable[str]) -> None:
    """What reading the data found that a person should know, on standard error."""
    for note in notes:
        print(f"note: {one_line(note)}", file=sys.stderr)


def print_json(value: Any) -> None:
    """A result on standard output, as strict JSON."""
    print(to_json(value, indent=2))


def print_rows(header: list[str], rows: list[list[str]]) -> None:
    """Aligned columns on standard output: numbers to the right, text to the left, and nothing cut off."""
    columns = list(zip(header, *(map(one_line, row) for row in rows), strict=True))
    aligned = []
    for column in columns:
        width = max(map(len, column))
        right = all(_is_number(cell) for cell in column[1:])
        aligned.append([cell.rjust(width) if right else cell.ljust(width) for cell in column])
    for line in zip(*aligned, strict=True):
        print("  ".join(line).rstrip())


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.replace(",", "").replace(".", "").lstrip("+-").isdigit()


def metric_rows(columns: dict[str, dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """A table with one row per metric and one column per measurement, in percent."""
    from lookalike.evaluation.metrics import format_value, table_keys

    keys = table_keys(key for values in columns.values() for key in values)
    rows = [[key, *(format_value(key, values.get(key)) for values in columns.values())] for key in keys]
    return ["percent", *columns], rows


def print_result(result: dict[str, Any]) -> None:
    """A run's metrics before and after training, and how its weights were chosen; a search leaves the test out."""
    columns = {
        "validation start": "start",
        "validation": "validation",
        "test start": "test_start",
        "test": "test",
    }
    print_rows(*metric_rows({title: result[key] for title, key in columns.items() if key in result}))
    chosen = result["selected"]
    print(
        f"chosen by {chosen['by']}: {chosen['what']}, epoch {chosen['epoch']} of {chosen['epochs_trained']}"
    )
