"""A job without the command line, for benchmarks that call its parts one by one."""

from pathlib import Path

import numpy as np
from lightning_fabric import Fabric

from lookalike.config.experiment import Experiment
from lookalike.data.dataset import LabeledImages
from lookalike.data.image_io import picture_size
from lookalike.data.splits import Parts
from lookalike.models.backbones import describe
from lookalike.training.context import Job
from lookalike.training.run_dir import RunFolder
from lookalike.utils.progress import Progress


def job_of(table: LabeledImages, settings: list[str], folder: Path, parts: Parts | None = None) -> Job:
    """A silent job on one CPU with these settings; `parts` None: the split that the settings draw."""
    experiment = Experiment().override(settings).check()
    parts = parts or experiment.cut(table)
    sides = [min(picture_size(table.file(row))) for row in np.linspace(0, len(table) - 1, 20).astype(int)]
    experiment = experiment.resolve(
        gpu=False,
        picture_size=int(np.median(sides)),
        backbone_size=describe(experiment.model.backbone).preprocessing.size,
        pictures=len(parts.train),
    )
    return Job(experiment, parts, RunFolder(folder), Fabric(accelerator="cpu", devices=1), Progress())
