"""The main job: a table of labeled pictures becomes a trained, honestly measured model in a run folder.

    table -> train / validation / test classes            (experiment.Experiment.cut)
    network at its closed-form start                       (models.whitening)
    training on the training classes; validation classes choose between the start, the best epoch and the
    whitened finish                                        (selection)
    optionally once more on all but the test classes, for the chosen number of epochs (`train.refit`)
    test classes, once: the start and the chosen model     (evaluation.evaluate)

Whatever chose is written into the result. The chosen model is never worse on validation than the start.
"""

import os
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from numpy.typing import NDArray
from torch import Tensor

from lookalike.config.experiment import Experiment
from lookalike.data.dataset import LabeledImages
from lookalike.data.image_io import picture_size
from lookalike.data.read import read
from lookalike.data.splits import Parts
from lookalike.embedding import embed_with
from lookalike.errors import FileError
from lookalike.models.backbones import describe
from lookalike.models.embedder import Embedder
from lookalike.models.fuse import for_inference
from lookalike.training.context import Job
from lookalike.training.evaluate_run import score
from lookalike.training.feeding import cached_view
from lookalike.training.run_dir import RunFolder
from lookalike.training.selection import keep_model, refit, select
from lookalike.training.setup import build_network
from lookalike.training.summary import data_facts, plan, result_of
from lookalike.training.trainable import Tail
from lookalike.utils.device import pick_device
from lookalike.utils.distributed import Processes
from lookalike.utils.environment import environment
from lookalike.utils.progress import Progress
from lookalike.utils.validation import check_at_least

PATIENCE = timedelta(days=1)
"""How long processes wait for the one that runs all pictures through the network; torch's own is half an hour."""


@dataclass(frozen=True)
class FitResult:
    """A finished run in memory: the result as written to disk, and the test pictures for a report."""

    result: dict[str, Any]
    test: LabeledImages
    start: NDArray[np.float32]
    final: NDArray[np.float32]


def fit(
    data: LabeledImages | str | Path,
    out: Path | str,
    experiment: Experiment | None = None,
    *,
    start_from: Path | str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    parts: Parts | None = None,
    score_test: bool = True,
    device: str = "auto",
    devices: int = 1,
    progress: Progress | None = None,
) -> FitResult:
    """Trains on `data`, measures, and leaves a run folder.

    Args:
        data: a table, or what `read` takes: a folder, a table file, an archive, a name.
        out: the run folder; new, or with `overwrite` an earlier run's, or with `resume` an interrupted one's.
        experiment: the settings; not with `resume`, which keeps the run's own.
        start_from: another run's folder, whose model training goes on from.
        parts: which classes train, validate and test; None: `Experiment.cut` of the data. Where the validation
            pictures are test pictures, the result says that the test was used to select.
        score_test: False leaves the test classes alone, as a search over settings must.
        device: "auto", "cpu", "cuda" or "mps".
        devices: processes that train together, each with its share of every batch; the numbers are those of
            one process. Under `torchrun` its processes are used.

    Raises:
        FileError: `out` cannot be used, or `data` is not the run's data.
        DataError: the data cannot be split, or holds a picture that cannot be read.
        TrainingError: the loss is not finite.
    """
    began, folder, progress = time.monotonic(), RunFolder(out), progress or Progress()
    table = data if isinstance(data, LabeledImages) else read(data)
    accelerator = pick_device(device).type
    if resume:
        experiment = folder.experiment()
        start_from = folder.read_json("data.json")["start_from"]
    experiment = (experiment or Experiment()).check()
    if start_from and not resume:
        experiment = experiment.with_network_of(RunFolder(start_from).experiment())
    parts = parts or experiment.cut(table)
    if not resume:
        experiment = _resolved(experiment, parts, gpu=accelerator != "cpu")
    fabric = _launched(accelerator, devices, experiment.train.precision)
    if Processes.all().rank > 0:
        progress = Progress()  # one process speaks for all
    job = Job(experiment, parts, folder, fabric, progress, Path(start_from) if start_from else None)
    facts = data_facts(data, table, parts, start_from)
    if job.start_from is not None:
        _refuse_other_data(RunFolder(job.start_from), facts, "start_from")
    if resume:
        _refuse_other_data(folder, facts, "resume")
    elif job.leads:
        folder.create(overwrite=overwrite)
        folder.write_json("data.json", facts)
        folder.write_json("environment.json", environment(str(fabric.device)))
        experiment.save(folder.path / "experiment.yaml")
    job.processes.wait()
    job.progress.say(plan(job))

    tail = build_network(job)
    start, outcome = select(job, tail)
    if experiment.train.refit and outcome.what != "start":
        tail = build_network(job)
        start = refit(job, tail, outcome)
    final = tail.embedder.eval()
    if not score_test:
        result = result_of(job, outcome, final)
        _save(job, final, result)
        nothing = np.zeros((0, final.embedding_dim), dtype=np.float32)
        return FitResult(result, parts.test.rows([]), nothing, nothing)
    vectors = _embed_test(job, tail, start)
    with job.timed("evaluation"):
        before, after = (score(parts.test, matrix) for matrix in vectors)
    job.seconds["total"] = round(time.monotonic() - began, 2)
    result = result_of(job, outcome, final) | {"test": after.to_dict(), "test_start": before.to_dict()}
    _save(job, final, result)
    if job.leads:
        after.save(folder.path / "test_queries")
    return FitResult(result, parts.test, *vectors)


def _launched(accelerator: str, devices: int, precision: Any) -> Fabric:
    """A Fabric whose processes run: one, `devices`, or those that torchrun has started."""
    check_at_least("devices", devices, 1)
    started = int(os.environ.get("WORLD_SIZE", 1)) if "TORCHELASTIC_RUN_ID" in os.environ else 1
    here = int(os.environ["LOCAL_WORLD_SIZE"]) if started > 1 else devices
    many = max(started, devices) > 1
    fabric = Fabric(
        accelerator=accelerator,
        devices=here,
        num_nodes=max(1, started // here),
        strategy=DDPStrategy(timeout=PATIENCE) if many else "auto",
        precision=precision,
    )
    if many:
        fabric.launch()
    return fabric


def _resolved(experiment: Experiment, parts: Parts, *, gpu: bool) -> Experiment:
    """The experiment with every None filled from the device and from a sample of the pictures."""
    table = parts.fit
    sample = np.linspace(0, len(table) - 1, num=min(len(table), 50)).astype(int)
    return experiment.resolve(
        gpu=gpu,
        picture_size=int(np.median([min(picture_size(table.file(row))) for row in sample])),
        backbone_size=describe(experiment.model.backbone).preprocessing.size,
        pictures=len(parts.train),
    )


def _refuse_other_data(folder: RunFolder, facts: dict[str, Any], purpose: str) -> None:
    """A run goes on only with its own data and split; otherwise test classes could have been trained on."""
    earlier = folder.read_json("data.json")
    for key, what in (("digest", "data"), ("split_digest", "split into classes")):
        if earlier[key] != facts[key]:
            raise FileError(
                f"{purpose}: the run '{folder.path}' was made with another {what} ({earlier['name']}); "
                "going on would mix training and test classes; use its data, seed and shares, or train anew"
            )


def _embed_test(job: Job, tail: Tail, start: Embedder) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Embeddings of the test pictures by the start and by the chosen model, in one pass over the pictures."""
    test, workers = job.parts.test, job.experiment.data.workers
    share = test.rows(range(*job.processes.share(len(test))))
    with job.timed("test"):
        if job.mode == "frozen":
            pooled = torch.from_numpy(np.array(cached_view(job, tail, test)(0))).to(job.fabric.device)
            with torch.inference_mode():
                first, second = (model.project(pooled).cpu().numpy() for model in (start, tail.embedder))
            return first, second
        fast = [for_inference(model) for model in (start, tail.embedder)]
        if job.mode == "partial":
            heads = [Tail(model, job.mode, job.cut) for model in fast]
            stem = fast[0].stem_until(job.cut)  # the same in both

            def both(images: Tensor) -> list[Tensor]:
                maps = stem(images)
                return [head.embed(maps) for head in heads]
        else:

            def both(images: Tensor) -> list[Tensor]:
                return [model(images) for model in fast]

        first, second = embed_with(
            both,
            tail.embedder.preprocessing,
            share,
            workers=workers,
            device=job.fabric.device,
            progress=job.progress,
            phase="test pictures",
        )
        return _gathered(job, first), _gathered(job, second)


def _gathered(job: Job, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows of all processes, which embed each picture once between them."""
    return job.processes.gather(torch.from_numpy(matrix).to(job.fabric.device)).cpu().numpy()


def _save(job: Job, embedder: Embedder, result: dict[str, Any]) -> None:
    if job.leads:
        keep_model(job, embedder)
        job.folder.write_json("result.json", result)
