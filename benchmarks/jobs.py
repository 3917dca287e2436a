"""A job without the command line, for benchmarks that call its parts one by one."""

from pathlib import Path

import numpy as np

from lookalike.config.experiment import Experiment
from lookalike.data.dataset import LabeledImages
from lookalike.data.image_io import image_size
from lookalike.data.splits import Split
from lookalike.models.backbones import describe
from lookalike.training.context import RunContext
from lookalike.training.launch import launch
from lookalike.training.run_dir import RunDir
from lookalike.utils.progress import Progress


def build_context(
    table: LabeledImages, settings: list[str], folder: Path, split: Split | None = None
) -> RunContext:
    """A silent job on one CPU with these settings; `parts` None: the split that the settings draw."""
    experiment = Experiment().override(settings).check()
    split = split or experiment.split(table)
    sides = [min(image_size(table.file(row))) for row in np.linspace(0, len(table) - 1, 20).astype(int)]
    experiment = experiment.resolve(
        gpu=False,
        short_side=int(np.median(sides)),
        backbone_size=describe(experiment.model.backbone).preprocessing.size,
        images=len(split.train),
    )
    return RunContext(experiment, split, RunDir(folder), launch("cpu", 1, "32-true"), Progress())
