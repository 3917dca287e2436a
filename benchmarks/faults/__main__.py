"""Injects faults at full scale, or measures memory over long runs, and writes the page and its JSON.

    python -m benchmarks.faults [TRIAL ...] [--data FOLDER] [--kills 50] [--minutes 4] [--share 0.1]
    python -m benchmarks.faults --list

Without a name every trial runs. Each result is added to the JSON file, in which it replaces an older one of its
name, so a long list can be measured in several sittings; the page shows the file.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.faults.commands import Commands
from benchmarks.faults.interruptions import Tally, disk_trials, kill_trials, overwrite_trials
from benchmarks.faults.jobs import other_jobs, training
from benchmarks.faults.long_runs import Growth, long_runs, measure
from benchmarks.faults.page import machine, page, revision
from benchmarks.faults.ranks import rank_trials

MODES = ("frozen", "partial", "finetune")
TOY = (
    "model.backbone=test_resnet",
    "model.weights=none",
    "model.embedding_dim=8",
    "data.image_size=32",
    "data.resize=32",
    "data.workers=0",
    "train.epochs=3",
    "train.refit=true",
    "batch.size=16",
)
DEFAULT_JSON, DEFAULT_PAGE = Path("docs/benchmarks/faults.json"), Path("docs/benchmarks/faults.md")
Trial = Callable[[Path, argparse.Namespace], list[Tally]]


def _settings(mode: str = "frozen", *more: str) -> list[str]:
    return [word for name in (*TOY, f"train.mode={mode}", *more) for word in ("--set", name)]


def _kill(mode: str, ranks: int, folder: Path, options: argparse.Namespace) -> list[Tally]:
    name = f"train, {mode}" + (f", {ranks} processes" if ranks > 1 else "")
    job = training(name, options.data, _settings(mode), ranks=ranks)
    return [kill_trials(Commands(folder), job, kills=options.kills, seed=options.seed, until=options.until)]


def _kill_other(name: str, folder: Path, options: argparse.Namespace) -> list[Tally]:
    job = next(job for job in other_jobs(options.data, _settings(), folder) if job.name == name)
    return [kill_trials(Commands(folder), job, kills=options.kills, seed=options.seed, until=options.until)]


def _overwrite(folder: Path, options: argparse.Namespace) -> list[Tally]:
    jobs = [
        training("train", options.data, _settings("frozen", f"model.embedding_dim={dim}")) for dim in (8, 4)
    ]
    return [overwrite_trials(Commands(folder), *jobs, kills=max(1, options.kills // 5), seed=options.seed)]


def _disk(name: str, folder: Path, options: argparse.Namespace) -> list[Tally]:
    jobs = [
        training("train", options.data, _settings("partial")),
        *other_jobs(options.data, _settings(), folder),
    ]
    job = next(job for job in jobs if job.name == name)
    return [disk_trials(Commands(folder), job, limits=max(1, options.kills // 2), seed=options.seed)]


def _ranks(mode: str, folder: Path, options: argparse.Namespace) -> list[Tally]:
    job = training(mode, options.data, _settings(mode), ranks=2)
    return rank_trials(Commands(folder), job, rounds=max(1, options.kills // 16))


TRIALS: dict[str, Trial] = {
    **{f"kill-{mode}": partial(_kill, mode, 1) for mode in MODES},
    **{f"kill-{mode}-2": partial(_kill, mode, 2) for mode in MODES},
    "kill-embed": partial(_kill_other, "embed"),
    "kill-index": partial(_kill_other, "index"),
    "kill-data": partial(_kill_other, "data add"),
    "kill-evaluate": partial(_kill_other, "evaluate"),
    "kill-study": partial(_kill_other, "study run"),
    "overwrite": _overwrite,
    **{
        f"disk-{name.replace(' ', '-')}": partial(_disk, name)
        for name in ("train", "embed", "index", "evaluate", "data add", "data check", "study run")
    },
    "ranks": partial(_ranks, "partial"),
}


def _memory(name: str, share: float) -> Growth:
    work, steps = long_runs()[name]
    return measure(name, work, max(10, round(share * steps)))


def _photos(folder: Path) -> str:
    """A folder of mosaics, 20 classes of 8."""
    import numpy as np
    from PIL import Image

    draws = np.random.default_rng(0)
    for label in range(20):
        pattern = draws.integers(0, 255, size=(6, 6, 3))
        (folder / f"{label}").mkdir(parents=True)
        for number in range(8):
            tiles = np.clip(pattern + draws.normal(0, 40, size=pattern.shape), 0, 255).astype(np.uint8)
            Image.fromarray(tiles).resize((48, 48), Image.Resampling.NEAREST).save(
                folder / f"{label}/{number}.png"
            )
    return str(folder)


def main() -> None:
    """Runs the trials that are named; exits with 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("trials", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--data", help="a folder of images; drawn if not given")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="of each trial of kills")
    parser.add_argument("--share", type=float, default=1.0, help="of the length of each long run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=DEFAULT_JSON)
    parser.add_argument("--page", type=Path, default=DEFAULT_PAGE)
    options = parser.parse_args()
    names = [*TRIALS, *long_runs()]
    if options.list:
        print("\n".join(names))
        return
    stored: dict[str, Any] = (
        json.loads(options.json.read_text(encoding="utf-8")) if options.json.exists() else {}
    )
    facts = {
        "date": date.today().isoformat(),
        "commit": revision(),
        "machine": machine(),
        "seed": options.seed,
    }
    lost = False
    with tempfile.TemporaryDirectory() as data:
        options.data = str(Path(options.data).resolve()) if options.data else _photos(Path(data) / "photos")
        for name in options.trials or names:
            options.until = time.monotonic() + 60 * options.minutes
            if name in TRIALS:
                with tempfile.TemporaryDirectory() as folder:
                    results = [asdict(tally) for tally in TRIALS[name](Path(folder), options)]
            else:
                results = [asdict(_memory(name, options.share))]
            lost |= any(result.get("problems") for result in results)
            for result in results:
                print(result)
                stored[result["name"]] = {**result, **facts}
            options.json.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            options.page.write_text(page(stored), encoding="utf-8")
    sys.exit(lost)


if __name__ == "__main__":
    main()
