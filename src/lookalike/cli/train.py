"""lookalike train: the main job."""

import logging
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from lookalike.cli.common import (
    DataArgument,
    Device,
    IgnoreLabel,
    Json,
    Layout,
    OnBadFile,
    Quiet,
    Set,
    Verify,
    make_progress,
    print_json,
    print_result,
    reading_options,
)
from lookalike.utils.cpus import end_this_process_first
from lookalike.utils.io import to_json
from lookalike.utils.progress import Progress

Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="The run directory to write.", show_default="runs/NAME of DATA"),
]
From = Annotated[
    Path | None, typer.Option("--from", help="A run directory whose model and proxies training starts from.")
]
TestOnTrained = Annotated[
    bool,
    typer.Option(
        "--test-on-trained",
        help="With --from: accept test classes that the earlier run was trained on; the result marks them.",
    ),
]
Config = Annotated[
    Path | None, typer.Option("--config", help="An experiment in YAML; --set changes it further.")
]
Devices = Annotated[int, typer.Option(help="Processes that train together, one per GPU; on one machine.")]
Minutes = Annotated[
    float | None,
    typer.Option(
        help="About how long the run may take on this machine: mode, input size and epochs that --set leaves open "
        "are planned from a measurement of a few seconds, and the plan is printed."
    ),
]
LogTo = Annotated[
    str,
    typer.Option(
        help="Where loss, rates, gradient norm, images per second and memory of each step go: csv, tensorboard, "
        "wandb, or several: csv,wandb."
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an interrupted run exactly.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run in the run directory.")]


def default_run(data: str) -> Path:
    """runs/NAME, NAME being that of a folder, of a file without its suffix, or of a known data set."""
    path = Path(data).resolve()
    return Path("runs") / ((path.name if path.is_dir() else path.stem) or "all")


def _is_helper() -> bool:
    """Whether --devices or torchrun has started this process next to the main one, which alone reports."""
    return any(int(os.environ.get(name) or 0) > 0 for name in ("RANK", "LOCAL_RANK"))


def _check_numbers(devices: int, minutes: float | None) -> None:
    """Refuses numbers out of range before data is read for them."""
    from lookalike.utils.validation import check_at_least, check_finite, check_positive

    check_at_least("--devices", devices, 1)
    if minutes is not None:
        check_positive("--minutes", minutes)
        check_finite("--minutes", minutes)


def train(
    data: DataArgument,
    out: Out = None,
    settings: Set = None,
    config: Config = None,
    start_from: From = None,
    test_on_trained: TestOnTrained = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
    layout: Layout = None,
    verify: Verify = None,
    ignore_label: IgnoreLabel = None,
    on_bad_file: OnBadFile = "skip",
    device: Device = "auto",
    devices: Devices = 1,
    minutes: Minutes = None,
    log_to: LogTo = "",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train on DATA, choose by validation classes, measure the test classes once, and write a report.

    Without a GPU the first stages of the network are run once and only the last ones train (mode partial);
    with a GPU everything trains (mode finetune). The quickest is --set train.mode=frozen.
    """
    progress = make_progress(quiet)
    if _is_helper():
        end_this_process_first()
        progress = Progress()
        logging.getLogger("lookalike").setLevel(logging.ERROR)
    from lookalike.config.experiment import Experiment, load_experiment
    from lookalike.data.load import read_and_report, reading
    from lookalike.errors import ArgumentError
    from lookalike.training.loggers import check_loggers
    from lookalike.training.run_dir import RunDir

    loggers = [name.strip() for name in log_to.split(",") if name.strip()]
    _check_numbers(devices, minutes)
    check_loggers(loggers)
    if test_on_trained and not start_from:
        raise ArgumentError("--test-on-trained goes with --from")
    options: dict[str, Any] = reading_options(layout, verify, ignore_label)
    if on_bad_file != "skip":
        options["on_bad_file"] = on_bad_file
    if resume and (settings or config or start_from or minutes or overwrite or options):
        raise ArgumentError(
            "--resume continues with the run's own settings; drop --set, --config, --from, --minutes, --overwrite and "
            "options of reading the data"
        )
    chosen = [f"data.{name}={to_json(value)}" for name, value in options.items()]
    experiment = (load_experiment(config) if config else Experiment()).override([*chosen, *(settings or [])])
    out = out or default_run(data)
    if not resume:
        RunDir(out).check_free(overwrite=overwrite)
    table = None if resume else read_and_report(data, **reading(experiment.data), progress=progress)
    # these bring torch, which takes seconds: only once what was read is said
    from lookalike.reporting.report import write_report
    from lookalike.training.context import RunOptions
    from lookalike.training.fit import fit
    from lookalike.utils.distributed import Processes

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # its processes announce themselves
    done = fit(
        data if table is None else table,
        out,
        None if resume else experiment,
        start_from=start_from,
        test_on_trained=test_on_trained,
        resume=resume,
        overwrite=overwrite,
        minutes=minutes,
        options=RunOptions(
            device=device,
            devices=devices,
            log_to=loggers,
            progress=progress,
        ),
    )
    if Processes.all().rank > 0:
        return  # only the main process reports
    report = write_report(out, done)
    if json:
        print_json(done.result)
        return
    print_result(done.result)
    print(f"{done.result['seconds']['total']:.0f} seconds in total")
    print(" ".join(done.result["in_words"]))
    print(f"report: {report}")
