"""The means of one run: its split, device and folder, and how its pictures become inputs of the network.

`Job` is what stays the same while a run goes on. The functions build the network, the cached inputs of
each mode, the closed-form projections, the loss and the batches; `fit` puts them in order.
"""

import inspect
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from torch import Tensor, nn

from lookalike.cache import CachedViews, cached_rows, weight_digest
from lookalike.checks import look_up
from lookalike.data.decoded import DecodedPictures, decoded_pictures
from lookalike.data.samplers import BalancedBatches, RandomBatches
from lookalike.data.splits import Parts
from lookalike.data.table import CoarseLevel, LabeledImages
from lookalike.data.transforms import TrainTransform
from lookalike.distributed import Processes
from lookalike.embedding import decoding_workers
from lookalike.errors import DataError
from lookalike.experiment import Experiment
from lookalike.inputs import Batches, CachedInputs, Inputs, PictureInputs, Tail
from lookalike.losses import LOSSES, MetricLoss
from lookalike.losses.sharded import Sharded
from lookalike.models import pooling, whitening
from lookalike.models.checkpoint import load_model
from lookalike.models.depthwise import most_places
from lookalike.models.embedder import Embedder, build_embedder
from lookalike.models.inference import for_inference
from lookalike.progress import Progress
from lookalike.runs import RunFolder
from lookalike.settings import Mode

Network = TypeVar("Network", bound=nn.Module)
Made = TypeVar("Made")


@dataclass
class Job:
    """What stays the same while a run goes on; `seconds` grows phase by phase.

    `views` holds the opened caches by the digest of their table: what never trains has one result for a whole
    run, so pictures and weights are hashed once, not for each part and again for the refit.
    """

    experiment: Experiment
    parts: Parts
    folder: RunFolder
    fabric: Fabric
    progress: Progress
    start_from: Path | None = None
    cut: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    views: dict[str, Callable[[int], NDArray[Any]]] = field(default_factory=dict)

    @property
    def mode(self) -> Mode:
        """The training mode, which a resolved experiment always has."""
        mode = self.experiment.train.mode
        assert mode is not None
        return mode

    @property
    def processes(self) -> Processes:
        """Those that train together; the one of rank 0 writes."""
        return Processes.all()

    @property
    def leads(self) -> bool:
        """Whether this process is the one that writes."""
        return self.processes.rank == 0

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Adds the time inside to the phase's seconds."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[phase] = round(self.seconds.get(phase, 0.0) + time.monotonic() - began, 2)


def build_network(job: Job) -> Tail:
    """The untrained network on the device (or the one of `job.start_from`), as the mode runs it.

    Raises:
        ArgumentError: mode partial with a backbone that is not a chain of stages.
    """
    model, data = job.experiment.model, job.experiment.data
    if job.start_from is not None:
        embedder, _ = load_model(job.start_from)
    else:
        embedder = build_embedder(
            model.backbone,
            weights=model.weights,
            pooling=model.pooling,
            k=model.pooling_k,
            norm=model.norm,
            embedding_dim=model.embedding_dim,
            size=data.image_size,
            resize=data.resize,
            seed=job.experiment.seed,
        )
    if job.mode == "partial":
        job.cut = job.experiment.train.cut or embedder.default_cut()
        embedder.head_from(job.cut)
    layout = torch.channels_last
    if job.mode == "partial" and job.fabric.device.type == "cpu" and prefers_contiguous(embedder):
        layout = torch.contiguous_format
    embedder.to(job.fabric.device, memory_format=layout).eval()  # type: ignore[call-overload]
    return Tail(embedder, job.mode, job.cut)


def prefers_contiguous(embedder: Embedder) -> bool:
    """Whether the last maps are so small that contiguous activations train faster here; see `models.depthwise`."""
    _, *places = embedder.stage_costs()[-1].output
    return math.prod(places) <= most_places(channels_last=True)


def inputs_of(job: Job, tail: Tail, table: LabeledImages) -> Inputs:
    """Inputs of the tail for the pictures of `table`; parts of `job.parts.fit` share one cache."""
    if job.mode == "finetune":
        return _picture_inputs(job, tail.embedder, table)
    known = job.parts.fit
    whole = known if set(table.paths) <= set(known.paths) else table  # test classes, where these select
    place = {path: row for row, path in enumerate(whole.paths)}
    return CachedInputs(
        cached_view(job, tail, whole),
        table,
        np.array([place[path] for path in table.paths]),
        views=job.experiment.train.views if job.mode == "partial" else 1,
        seed=job.experiment.seed,
    )


def cached_view(job: Job, tail: Tail, table: LabeledImages) -> Callable[[int], NDArray[Any]]:
    """What the part of the network that never trains makes of a view of every picture, (N, ...)."""
    digest = table.digest()
    if digest not in job.views:
        view = (_stem_view if job.mode == "partial" else _pooled_view)(job, tail.embedder.eval(), table)
        job.views[digest] = _made_once(job, "embedding", view)
    return job.views[digest]


def _made_once(job: Job, phase: str, make: Callable[..., Made]) -> Callable[..., Made]:
    """`make`, at the first call with its arguments, in the leading process first: the others find the cache
    full."""

    @cache
    def made(*arguments: Any) -> Made:
        if not job.leads:
            job.fabric.barrier()
        with job.timed(phase):
            result = make(*arguments)
        if job.leads:
            job.fabric.barrier()
        return result

    return made


def _picture_inputs(job: Job, embedder: Embedder, table: LabeledImages) -> PictureInputs:
    """The files, or what was decoded of them once."""
    data, transform = job.experiment.data, train_transform_of(job, embedder)
    if not data.keep_decoded:
        return PictureInputs(table, transform, seed=job.experiment.seed, workers=data.workers)
    plain = _views(job, embedder, table, lambda images: images, {}, np.uint8, "resizing pictures")

    def decoded() -> DecodedPictures:
        return decoded_pictures(
            table,
            digest=plain.picture_digest,
            at_least=transform.at_least,
            workers=decoding_workers(data.workers),
            progress=job.progress,
        )

    return PictureInputs(
        table,
        transform,
        seed=job.experiment.seed,
        workers=data.workers,
        decoded=_made_once(job, "decoding", decoded),
        plain=_made_once(job, "decoding", lambda: plain.view(0)),
    )


def _stem_view(job: Job, embedder: Embedder, table: LabeledImages) -> Callable[[int], NDArray[Any]]:
    """Activations after the first stages, in half precision."""
    stem = embedder.stem_until(job.cut)
    outputs = _lazily(stem, lambda fast, images: fast(images))
    key = {"weights": weight_digest([stem]), "cut": job.cut}
    return _views(job, embedder, table, outputs, key, np.float16, "first stages").view


def _pooled_view(job: Job, embedder: Embedder, table: LabeledImages) -> Callable[[int], NDArray[Any]]:
    """Pooled vectors; one pass over the pictures serves every pooling but k_max, and every norm."""
    config, phase = embedder.config, "embedding pictures"
    key: dict[str, Any] = {"weights": weight_digest([embedder.backbone])}
    if config.pooling not in pooling.FROM_BOTH:
        outputs = _lazily(embedder, lambda fast, images: fast.pool(fast.feature_maps(images)))
        key["pooling"] = [config.pooling, config.k, config.norm]
        return _views(job, embedder, table, outputs, key, np.float32, phase).view
    outputs = _lazily(embedder, lambda fast, images: pooling.average_and_maximum(fast.feature_maps(images)))
    views = _views(job, embedder, table, outputs, key, np.float32, phase)

    def pooled(both_BG: Tensor) -> Tensor:
        return pooling.normed(pooling.from_average_and_maximum(both_BG, config.pooling), config.norm)

    return lambda number: cached_rows(
        pooled, views.view(number), {"pooled": [views.key_of(number), config.pooling, config.norm]}
    )


def _views(
    job: Job,
    embedder: Embedder,
    table: LabeledImages,
    outputs: Callable[[Tensor], Tensor],
    key: dict[str, Any],
    dtype: type[np.generic],
    phase: str,
) -> CachedViews:
    return CachedViews(
        outputs,
        table,
        train_transform_of(job, embedder),
        key=key,
        seed=job.experiment.seed,
        dtype=dtype,
        batch_size=64,
        workers=job.experiment.data.workers,
        device=job.fabric.device,
        progress=job.progress,
        phase=phase,
    )


def _lazily(module: Network, use: Callable[[Network, Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """`use` of pictures with the module's fast copy, which is made at the first call, if there is one."""
    fast = cache(lambda: for_inference(module))
    return lambda images: use(fast(), images)


def train_transform_of(job: Job, embedder: Embedder) -> TrainTransform:
    """The random crops of the experiment, at the network's size."""
    data = job.experiment.data
    return TrainTransform(
        embedder.preprocessing, scale=data.crop_scale, ratio=data.crop_ratio, flip=0.5 if data.flip else 0.0
    )


def run_whole(job: Job, tail: Tail, inputs: Inputs, *, project: bool) -> Tensor:
    """Embeddings (without `project`: pooled vectors) of every input, unaugmented, on the CPU."""
    embedder = tail.embedder.eval()
    fast = tail if tail.mode == "frozen" else Tail(for_inference(embedder), tail.mode, tail.cut)
    function = fast.embed if project else fast.pooled
    with torch.inference_mode(), job.fabric.autocast():
        share = inputs.whole(*job.processes.share(len(inputs)))
        results = [function(job.fabric.to_device(batch)).float() for batch in share]
        return job.processes.gather(torch.cat(results)).cpu().clone()  # cloned: out of inference mode


def set_closed_form(job: Job, embedder: Embedder, form: str, pooled_NF: Tensor, labels_N: Tensor) -> None:
    """Puts the start or finish named `form`, computed on training features, into the projection."""
    dim, features = embedder.embedding_dim, embedder.pooled_dim
    if form == "whitened":
        projection = whitening.whitened(pooled_NF, labels_N, dim, shrinkage=job.experiment.model.shrinkage)
    elif form == "pca":
        projection = whitening.pca(pooled_NF, dim)
    elif form == "identity":
        projection = whitening.identity(features, dim)
    else:
        projection = whitening.random(features, dim, torch.Generator().manual_seed(job.experiment.seed))
    embedder.set_projection(*projection)


def begin(job: Job, tail: Tail, inputs: Inputs, num_classes: int) -> MetricLoss:
    """Sets the projection's start and returns the loss, its proxies at their start."""
    experiment, embedder = job.experiment, tail.embedder
    with job.timed("start"):
        pooled = run_whole(job, tail, inputs, project=False)
        if job.start_from is None:
            set_closed_form(job, embedder, experiment.model.start, pooled, inputs.labels)
        generator = torch.Generator().manual_seed(experiment.seed)
        loss = build_loss(experiment, num_classes, embedder, generator, inputs.table.coarse)
        proxies = loss.proxy_loss
        if proxies and "class_mean" in (experiment.train.proxy_start, proxies.proxy_init):
            with torch.no_grad():
                embeddings = embedder.project(pooled.to(job.fabric.device)).cpu()
            loss.initialize_proxies_at_class_means(embeddings, inputs.labels, generator)
    return loss.to(job.fabric.device)


def build_loss(
    experiment: Experiment,
    num_classes: int,
    embedder: Embedder,
    generator: torch.Generator,
    coarse: tuple[CoarseLevel, ...] = (),
) -> MetricLoss:
    """The loss that the experiment names; its setting `parents: given` stands for the data's coarse levels.

    Raises:
        DataError: given parents are asked for, and the data has no coarse level.
    """
    kind = look_up(LOSSES, experiment.loss.name, "loss")
    arguments = experiment.loss.arguments
    if arguments.get("parents") == "given":
        if not coarse:
            raise DataError(
                "loss.parents is 'given', but the data has no coarse level; leave the setting out"
            )
        arguments["parents"] = [level.parents for level in coarse]
    known: dict[str, Any] = {"generator": generator, "channels": embedder.channels}
    given = {name: value for name, value in known.items() if name in inspect.signature(kind).parameters}
    if experiment.train.shard_proxies:
        base = {"name": experiment.loss.name, "settings": arguments}
        return Sharded(num_classes, embedder.embedding_dim, base=base, generator=generator)
    return kind(num_classes, embedder.embedding_dim, **(given | arguments))


def batches_of(job: Job, labels: Tensor) -> Batches:
    """The sampler that the experiment names."""
    batch, seed, of = job.experiment.batch, job.experiment.seed, job.processes
    rows = labels.numpy()
    if batch.sampler == "balanced":
        return BalancedBatches(
            rows,
            classes=batch.classes,
            per_class=batch.per_class,
            seed=seed,
            rank=of.rank,
            world_size=of.size,
        )
    size = min(batch.size, len(rows))
    return RandomBatches(
        rows, batch_size=size, seed=seed, drop_last=batch.drop_last, rank=of.rank, world_size=of.size
    )
