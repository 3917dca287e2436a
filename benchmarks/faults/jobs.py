"""The commands that are interrupted, what continues each, and what each leaves behind."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.faults.compare import (
    Traces,
    dataset_traces,
    file_traces,
    index_traces,
    result_traces,
    run_traces,
    study_traces,
)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A command and how to look at it; paths are relative to the folder of the trials.

    Attributes:
        words: the command.
        makes: what it makes, removed before each trial.
        traces: of what it has made; two runs of the command agree in it.
        resume: what a person gives after an interruption; None: the same command again.
        before: commands that are needed once.
        ranks: processes that train together.
    """

    name: str
    words: tuple[str, ...]
    makes: str
    traces: Callable[[Path], Traces]
    resume: tuple[str, ...] | None = None
    before: tuple[tuple[str, ...], ...] = ()
    ranks: int = 1
    variables: dict[str, str] = field(default_factory=dict)

    def next_words(self, folder: Path) -> tuple[str, ...]:
        """The next command after an interruption."""
        begun = (folder / self.makes / "experiment.yaml").exists()
        return self.resume if self.resume is not None and begun else self.words

    def found(self, folder: Path) -> Traces:
        """The traces of what was made."""
        return self.traces(folder / self.makes)


def training(name: str, data: str, settings: list[str], *, ranks: int = 1) -> Job:
    """A training run, continued with --resume."""
    again = ("train", data, "--quiet", "--device", "cpu", "--out", "run")
    return Job(
        name=name,
        words=(*again, *settings),
        resume=(*again, "--resume"),
        makes="run",
        traces=run_traces,
        ranks=ranks,
    )


def other_jobs(data: str, settings: list[str], folder: Path) -> list[Job]:
    """Every other command that writes."""
    archive = shutil.make_archive(str(folder / "photos"), "zip", data)
    model = ("train", data, "--quiet", "--device", "cpu", "--out", "model", *settings)
    embed = ("embed", "model", data, "--quiet", "--device", "cpu", "--out")
    study = (
        "study",
        "run",
        "proxynca_pp/table7",
        "--smoke",
        "--seeds",
        "1",
        "--rows",
        "full",
        "--out",
        "study",
    )
    return [
        Job(name="embed", words=(*embed, "made.npy"), makes="made.npy", traces=file_traces, before=(model,)),
        Job(
            name="index",
            words=("index", "model", data, "--quiet", "--device", "cpu", "--out", "made"),
            makes="made",
            traces=index_traces,
            before=(model,),
        ),
        Job(
            name="data add",
            words=("data", "add", "photos", archive, "--quiet"),
            makes="cache",
            traces=dataset_traces,
        ),
        Job(
            name="evaluate",
            words=("evaluate", "model", "--quiet", "--device", "cpu", "--save", "made"),
            makes="made.json",
            traces=result_traces,
            before=(model,),
        ),
        Job(
            name="data check",
            words=("data", "check", data, "--write", "made.parquet"),
            makes="made.parquet",
            traces=file_traces,
        ),
        Job(name="study run", words=(*study, "--quiet"), makes="study", traces=study_traces),
    ]
