"""Results of runs in OUT/results.jsonl, one line per run, shared by all studies and processes.

    OUT/results.jsonl               a line for each row and seed of each study; the last line of one counts
    OUT/runs/KEY/                   the run directories of one experiment with one seed
    OUT/PAPER/STUDY/CONDITIONS/     the table of a study, in Markdown, HTML and JSON

KEY is a hash of everything that decides the numbers: experiment, data, protocol, version. An experiment that is
a row of several studies is run once.
"""

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock

from lookalike.config.defaults import MODE_DEFAULTS
from lookalike.config.experiment import Experiment
from lookalike.data.dataset import LabeledImages
from lookalike.errors import FileError
from lookalike.utils.io import to_json

AS_PUBLISHED = "as published"
RESULTS = "results.jsonl"
LONGEST_NAME = 120


@dataclass(frozen=True)
class Result:
    """One run: what it was asked for, and its score or why it failed.

    Attributes:
        conditions: what was changed for the whole run of the study, or `AS_PUBLISHED`.
        dataset: the images that were used.
        comparable: whether data, settings and protocol are those of the published number.
        score: of the protocol, as plain values; empty after a failure.
        error: why it failed.
    """

    study: str
    row: str
    seed: int
    key: str
    conditions: str
    dataset: str
    protocol: str
    comparable: bool
    score: dict[str, Any]
    error: str = ""


def load_results(out: Path) -> list[Result]:
    """All results in a folder, the last one of each study, conditions, row and seed.

    A last line that was cut off by a crash is left out.

    Raises:
        FileError: another line is damaged.
    """
    file = out / RESULTS
    if not file.exists():
        return []
    text = file.read_text(encoding="utf-8")
    lines = text.split("\n")[:-1]
    found: dict[tuple[str, str, str, int], Result] = {}
    for number, line in enumerate(lines, start=1):
        try:
            result = Result(**json.loads(line))
        except (ValueError, TypeError) as error:
            raise FileError(f"{file}, line {number} is no result: {error}; remove the line") from error
        found[result.study, result.conditions, result.row, result.seed] = result
    return list(found.values())


def append_result(out: Path, result: Result) -> None:
    """Adds a line; other processes may do so at the same time."""
    line = to_json(asdict(result))
    with FileLock(out / f".{RESULTS}.lock"):
        file = out / RESULTS
        cut_off = file.exists() and not file.read_bytes().endswith(b"\n")
        with file.open("a", encoding="utf-8") as stream:
            stream.write(("\n" if cut_off else "") + line + "\n")


def run_key(experiment: Experiment, table: LabeledImages, protocol: str, search: dict[str, Any]) -> str:
    """The name of a run: a hash of everything that decides its numbers, after a readable beginning."""
    facts: dict[str, Any] = {
        "experiment": experiment.model_dump(mode="json"),
        "defaults": MODE_DEFAULTS.get(experiment.train.mode or ""),  # what a None in it will become
        "data": table.digest(),
        "protocol": protocol,
        "search": search,
        "version": version("lookalike"),
    }
    digest = hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=8).hexdigest()
    return folder_name(f"{table.name[:40]}-{experiment.loss.name}-{digest}")


def table_folder(out: Path, study: str, conditions: str) -> Path:
    """Where the table of a study under some conditions lies."""
    return out / study / folder_name(conditions)


def folder_name(text: str) -> str:
    """The text as a name that every file system takes; a long one ends in a hash of the whole."""
    name = re.sub(r"[^\w.+=-]+", "_", text)
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 9]}-{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}"
