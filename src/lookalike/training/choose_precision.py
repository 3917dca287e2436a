"""Chooses float32 or bfloat16, for embedding and for training, by a measurement on this machine.

Only processors with instructions for bfloat16 are measured; elsewhere it is emulated and slower. The measurement is
kept in the cache, and what is chosen becomes a setting of the run: the same command gives the same result.
"""

from contextlib import suppress
from dataclasses import asdict, dataclass

import torch

from lookalike.config.experiment import Experiment
from lookalike.config.schema import Mode
from lookalike.errors import FileError
from lookalike.training.costs import measure_precision
from lookalike.utils.cache_dir import cache_folder
from lookalike.utils.cpus import processor_name
from lookalike.utils.device import computes_bfloat16
from lookalike.utils.hashing import hash_text
from lookalike.utils.io import read_checked, to_json, write_checked
from lookalike.utils.progress import Progress

FASTER = 1.15
"""How many times as fast bfloat16 must be; less is not worth its rounding."""


@dataclass(frozen=True)
class Speedup:
    """How many times as fast as in float32 the network computes in bfloat16."""

    embedding: float
    training: float


def choose_precision(
    experiment: Experiment, *, mode: Mode, size: int, accelerator: str, progress: Progress
) -> list[str]:
    """Assignments of `model.precision` and `train.precision`, where they are open, as measured at this size.

    None on a GPU, and on a CPU without instructions for bfloat16.
    """
    embeds, trains = experiment.model.precision is None, experiment.train.precision is None
    if accelerator != "cpu" or not computes_bfloat16(torch.device("cpu")) or not (embeds or trains):
        return []
    found = _speedup(experiment, mode, size)
    chosen = []
    if embeds:
        chosen.append("model.precision=" + ("bfloat16" if found.embedding > FASTER else "float32"))
    if trains:
        chosen.append("train.precision=" + ("bf16-mixed" if found.training > FASTER else "32-true"))
    progress.say(
        f"in bfloat16 this machine embeds {found.embedding:.1f} times as fast and trains {found.training:.1f} times as "
        f"fast as in float32 ({size} px): {', '.join(chosen)}"
    )
    return chosen


def _speedup(experiment: Experiment, mode: Mode, size: int) -> Speedup:
    """Measured, or what was measured here before."""
    decides = {
        "backbone": experiment.model.backbone,
        "pooling": experiment.model.pooling,
        "mode": mode,
        "frozen_stages": experiment.train.frozen_stages,
        "size": size,
        "processor": processor_name(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    file = cache_folder() / "precision" / f"{hash_text(to_json(decides)).hex()[:32]}.json"
    with suppress(FileError, TypeError):  # never measured, or damaged
        return Speedup(**read_checked(file))
    full, half = (measure_precision(experiment, mode, size, name) for name in ("float32", "bfloat16"))
    found = Speedup(
        (full.frozen + full.forward) / (half.frozen + half.forward), training=full.step / half.step
    )
    with suppress(OSError):  # a cache that cannot be written: the next run measures again
        file.parent.mkdir(parents=True, exist_ok=True)
        write_checked(file, asdict(found))
    return found
