"""The main context: a table of labeled images becomes a trained, honestly measured model in a run directory.

    table -> train / validation / test classes            (config.experiment.Experiment.split)
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
from lookalike.data.image_io import image_size
from lookalike.data.read import read
from lookalike.data.splits import Split
from lookalike.embedding import embed_with
from lookalike.errors import FileError
from lookalike.models.backbones import describe
from lookalike.models.embedder import Embedder
from lookalike.models.fuse import fuse_for_inference
from lookalike.models.views import image_views, mean_over_views
from lookalike.training.context import RunContext
from lookalike.training.evaluate_run import score
from lookalike.training.feeding import cached_view
from lookalike.training.run_dir import RunDir
from lookalike.training.selection import refit, save_best_model, select
from lookalike.training.setup import build_network
from lookalike.training.summary import build_result, data_facts, plan
from lookalike.training.trainable import TrainablePart
from lookalike.utils.device import pick_device
from lookalike.utils.distributed import Processes
from lookalike.utils.environment import environment
from lookalike.utils.progress import Progress
from lookalike.utils.validation import check_at_least

PATIENCE = timedelta(days=1)
"""How long processes wait for the one that runs all images through the network; torch's own is half an hour."""


@dataclass(frozen=True)
class FitResult:
    """A finished run in memory: the result as written to disk, and the test images for a report."""

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
    split: Split | None = None,
    score_test: bool = True,
    device: str = "auto",
    devices: int = 1,
    progress: Progress | None = None,
) -> FitResult:
    """Trains on `data`, measures, and leaves a run directory.

    Args:
        data: a table, or what `read` takes: a folder, a table file, an archive, a name.
        out: the run directory; new, or with `overwrite` an earlier run's, or with `resume` an interrupted one's.
        experiment: the settings; not with `resume`, which keeps the run's own.
        start_from: another run's folder, whose model training goes on from.
        split: which classes train, validate and test; None: `Experiment.split` of the data. Where the validation
            images are test images, the result says that the test was used to select.
        score_test: False leaves the test classes alone, as a search over settings must.
        device: "auto", "cpu", "cuda" or "mps".
        devices: processes that train together, each with its share of every batch; the numbers are those of
            one process. Under `torchrun` its processes are used.

    Raises:
        FileError: `out` cannot be used, or `data` is not the run's data.
        DataError: the data cannot be split, or holds an image that cannot be read.
        TrainingError: the loss is not finite.
    """
    began, run_dir, progress = time.monotonic(), RunDir(out), progress or Progress()
    table = data if isinstance(data, LabeledImages) else read(data)
    accelerator = pick_device(device).type
    if resume:
        experiment = run_dir.experiment()
        start_from = run_dir.read_json("data.json")["start_from"]
    experiment = (experiment or Experiment()).check()
    if start_from and not resume:
        experiment = experiment.with_network_of(RunDir(start_from).experiment())
    split = split or experiment.split(table)
    if not resume:
        experiment = _resolved(experiment, split, gpu=accelerator != "cpu")
    fabric = _launched(accelerator, devices, experiment.train.precision)
    if Processes.all().rank > 0:
        progress = Progress()  # one process speaks for all
    context = RunContext(
        experiment, split, run_dir, fabric, progress, Path(start_from) if start_from else None
    )
    facts = data_facts(data, table, split, start_from)
    if context.start_from is not None:
        _refuse_other_data(RunDir(context.start_from), facts, "start_from")
    if resume:
        _refuse_other_data(run_dir, facts, "resume")
    elif context.is_main_process:
        run_dir.create(overwrite=overwrite)
        run_dir.write_json("data.json", facts)
        run_dir.write_json("environment.json", environment(str(fabric.device)))
        experiment.save(run_dir.path / "experiment.yaml")
    context.processes.barrier()
    context.progress.say(plan(context))

    trainable = build_network(context)
    start, outcome = select(context, trainable)
    if experiment.train.refit and outcome.what != "start":
        trainable = build_network(context)
        start = refit(context, trainable, outcome)
    final = trainable.embedder.eval()
    if not score_test:
        result = build_result(context, outcome, final)
        _save(context, final, result)
        nothing = np.zeros((0, final.embedding_dim), dtype=np.float32)
        return FitResult(result, split.test.rows([]), nothing, nothing)
    vectors = _embed_test(context, trainable, start)
    with context.timed("evaluation"):
        before, after = (score(split.test, matrix) for matrix in vectors)
    context.seconds["total"] = round(time.monotonic() - began, 2)
    result = build_result(context, outcome, final) | {"test": after.to_dict(), "test_start": before.to_dict()}
    _save(context, final, result)
    if context.is_main_process:
        after.save(run_dir.path / "test_queries")
    return FitResult(result, split.test, *vectors)


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


def _resolved(experiment: Experiment, split: Split, *, gpu: bool) -> Experiment:
    """The experiment with every None filled from the device and from a sample of the images."""
    table = split.trainval
    sample = np.linspace(0, len(table) - 1, num=min(len(table), 50)).astype(int)
    return experiment.resolve(
        gpu=gpu,
        short_side=int(np.median([min(image_size(table.file(row))) for row in sample])),
        backbone_size=describe(experiment.model.backbone).preprocessing.size,
        images=len(split.train),
    )


def _refuse_other_data(folder: RunDir, facts: dict[str, Any], purpose: str) -> None:
    """A run goes on only with its own data and split; otherwise test classes could have been trained on."""
    earlier = folder.read_json("data.json")
    for key, what in (("digest", "data"), ("split_digest", "split into classes")):
        if earlier[key] != facts[key]:
            raise FileError(
                f"{purpose}: the run '{folder.path}' was made with another {what} ({earlier['name']}); "
                "going on would mix training and test classes; use its data, seed and shares, or train anew"
            )


def _embed_test(
    context: RunContext, trainable: TrainablePart, start: Embedder
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Embeddings of the test images by the start and by the chosen model, in one pass over the images."""
    test, workers = context.split.test, context.experiment.data.workers
    views = trainable.embedder.config.views
    share = test.rows(range(*context.processes.share(len(test))))
    with context.timed("test"):
        if context.mode == "frozen":
            view = cached_view(context, trainable, test)
            arrays = [torch.from_numpy(np.array(view(number))) for number in range(views)]
            pooled = mean_over_views(context.fabric.to_device, arrays)
            with torch.inference_mode():
                first, second = (model.project(pooled).cpu().numpy() for model in (start, trainable.embedder))
            return first, second
        fast = [fuse_for_inference(model) for model in (start, trainable.embedder)]
        if context.mode == "partial":
            heads = [TrainablePart(model, context.mode, context.frozen_stages) for model in fast]
            stem = fast[0].frozen_part(context.frozen_stages)  # the same in both

            def both(images: Tensor) -> list[Tensor]:
                maps = [stem(view) for view in image_views(images, views)]
                return [head.embedder.project(mean_over_views(head.pooled, maps)) for head in heads]
        else:

            def both(images: Tensor) -> list[Tensor]:
                return [model(images) for model in fast]

        first, second = embed_with(
            both,
            trainable.embedder.preprocessing,
            share,
            workers=workers,
            device=context.fabric.device,
            progress=context.progress,
            phase="test images",
        )
        return _gathered(context, first), _gathered(context, second)


def _gathered(context: RunContext, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows of all processes, which embed each image once between them."""
    return context.processes.gather(torch.from_numpy(matrix).to(context.fabric.device)).cpu().numpy()


def _save(context: RunContext, embedder: Embedder, result: dict[str, Any]) -> None:
    if context.is_main_process:
        save_best_model(context, embedder)
        context.run_dir.write_json("result.json", result)
