"""Seconds per image of the parts of a run, measured on this machine with a few of its own images.

Each number is the quickest of a few repetitions after one to warm up, so that a machine that is busy for a moment is
not taken for a slow one. It takes a few seconds in all.
"""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import astuple, dataclass

import numpy as np
import torch
from torch import Tensor

from lookalike.config.experiment import Experiment
from lookalike.config.schema import Mode
from lookalike.data.dataloader import SLOW, embedding_workers
from lookalike.data.dataset import LabeledImages
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.transforms import EvalTransform
from lookalike.models.batch_norm import freeze_batch_norm
from lookalike.models.embedder import Embedder, build_embedder
from lookalike.models.whitening import whitened
from lookalike.training.budget import Costs, line_through
from lookalike.training.launch import default_precision
from lookalike.training.trainable import TrainablePart
from lookalike.utils.cpus import available_cpus
from lookalike.utils.device import keep_random_state
from lookalike.utils.threads import thread_count

IMAGES = 16
"""Images of a measured batch at the larger size. At the smaller size there are more, of the same pixels in all,
since each batch costs a little whatever it holds."""
DTYPES = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
WIDTH = 512
"""Width of the measured closed form; its cost grows with the third power of the width."""


@dataclass(frozen=True)
class Seconds:
    """Seconds per image of the first stages, of the others forward, and of the others with a backward."""

    frozen: float
    forward: float
    step: float


def measure_costs(
    experiment: Experiment, mode: Mode, table: LabeledImages, sizes: tuple[int, int], device: torch.device
) -> Costs:
    """Seconds per image with the network of `experiment`, at two input sizes."""
    part = _measured_part(experiment, mode, max(sizes), device, experiment.model.precision or "float32")
    embedder = part.embedder
    dtype = DTYPES.get(experiment.train.precision or default_precision(device.type))
    with keep_random_state(device):
        counts = [round(IMAGES * (max(sizes) / size) ** 2) for size in sizes]
        found = [
            _at_size(part, size, count, device, dtype) for size, count in zip(sizes, counts, strict=True)
        ]
    frozen, forward, step = (
        line_through((sizes[0], one), (sizes[1], other))
        for one, other in zip(*map(astuple, found), strict=True)
    )
    cubed = (embedder.pooled_dim / WIDTH) ** 3
    decoding = _decoding(embedder, table)
    at_once, ahead = decoders(experiment.data.workers, device, decoding)
    projection = _projection_step(embedder, experiment.batch.images, device)
    return Costs(decoding / at_once, frozen, forward, step, projection, cubed * _closed_form(), ahead)


def measure_precision(experiment: Experiment, mode: Mode, size: int, precision: str) -> Seconds:
    """Seconds per image on the CPU at one input size, embedding and training in "float32" or "bfloat16"."""
    device = torch.device("cpu")
    part = _measured_part(experiment, mode, size, device, precision)
    dtype = torch.bfloat16 if precision == "bfloat16" else None
    with keep_random_state(device):
        return _at_size(part, size, IMAGES, device, dtype)


def _measured_part(
    experiment: Experiment, mode: Mode, size: int, device: torch.device, precision: str
) -> TrainablePart:
    """What a step of `experiment` would train, with a projection of `WIDTH`."""
    model = experiment.model
    embedder = build_embedder(
        model.backbone, weights=model.weights, pooling=model.pooling, embedding_dim=WIDTH, size=size
    ).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    embedder.set_precision(precision)
    return TrainablePart.of(embedder, mode, experiment.train.frozen_stages)


def decoders(workers: int | None, device: torch.device, seconds: float) -> tuple[int, bool]:
    """How many images are decoded at a time, and whether while the network computes; see `data.dataloader`.

    Args:
        workers: `data.workers`.
        seconds: that one image takes.
    """
    processes = embedding_workers(workers, device)
    if processes:
        return min(processes, available_cpus()), device.type != "cpu"
    return thread_count() if seconds > SLOW else 1, False


def _at_size(
    part: TrainablePart, size: int, count: int, device: torch.device, dtype: torch.dtype | None
) -> Seconds:
    """Seconds per image, measured at one input size.

    Args:
        count: images of the measured batch.
        dtype: that the stages which train compute in; None: float32.
    """
    mixed = torch.autocast(device.type, dtype=dtype, enabled=dtype is not None)
    images = torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8, device=device)
    fused = part.for_inference()
    frozen, inputs, first = 0.0, images, None
    if part.mode != "finetune":
        first = part.frozen_part().for_inference()
    with torch.inference_mode():
        if first is not None:
            frozen, inputs = _seconds(lambda: first(images), device), first(images)
        with mixed if device.type != "cpu" else nullcontext():  # a CPU embeds in model.precision
            forward = _seconds(lambda: fused.embed(inputs), device)
    freeze_batch_norm(part.embedder.train(), affine_trained=True)
    inputs = inputs.clone()  # out of inference mode
    with mixed:
        step = _seconds(lambda: _backward(part, inputs), device)
    part.embedder.eval()
    return Seconds(frozen / count, forward / count, step / count)


def _backward(part: TrainablePart, inputs: Tensor) -> None:
    part.embed(inputs).square().sum().backward()  # type: ignore[no-untyped-call]
    for parameter in part.embedder.parameters():
        parameter.grad = None


def _projection_step(embedder: Embedder, count: int, device: torch.device) -> float:
    """Seconds per image of a training step of the projection alone, in batches of `count`."""
    pooled = torch.zeros(count, embedder.pooled_dim, device=device)
    optimizer = torch.optim.AdamW(embedder.projection.parameters())

    def step() -> None:
        embedder.project(pooled).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return _seconds(step, device) / count


def _decoding(embedder: Embedder, table: LabeledImages) -> float:
    """Seconds of one image in one thread: the median of a few, so that one large photo among thumbnails decides
    nothing."""
    dataset = ImageDataset(table, EvalTransform(embedder.preprocessing))
    seconds = []
    for row in np.linspace(0, len(table) - 1, num=min(len(table), IMAGES)).astype(int):
        began = time.perf_counter()
        dataset[int(row)]
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds))


def _closed_form() -> float:
    draws = torch.Generator().manual_seed(0)
    features = torch.randn(2 * WIDTH, WIDTH, generator=draws)
    labels = torch.arange(2 * WIDTH) % 8
    return _seconds(lambda: whitened(features, labels, 8), torch.device("cpu"))


def _seconds(call: Callable[[], object], device: torch.device, repetitions: int = 3) -> float:
    """The quickest of a few calls, after one that warms up."""
    best = float("inf")
    for repetition in range(repetitions + 1):
        began = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if repetition:
            best = min(best, time.perf_counter() - began)
    return best
