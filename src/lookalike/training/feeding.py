"""How the pictures of a run become inputs of its network, mode by mode, with everything made once.

| mode     | inputs                                                                                  |
|----------|-----------------------------------------------------------------------------------------|
| finetune | the files, or with `data.keep_decoded` what was decoded of them once                    |
| partial  | activations after the first stages, `train.views` views of each picture                 |
| frozen   | pooled vectors                                                                          |
"""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from lookalike.data.dataset import LabeledImages
from lookalike.data.decoded import DecodedPictures, decoded_pictures
from lookalike.data.transforms import TrainTransform
from lookalike.models import pooling
from lookalike.models.embedder import Embedder
from lookalike.models.fuse import for_inference
from lookalike.training.context import Job
from lookalike.training.feature_cache import CachedViews, cached_rows, weight_digest
from lookalike.training.inputs import CachedInputs, Inputs, PictureInputs
from lookalike.training.trainable import Tail

Network = TypeVar("Network", bound=nn.Module)
Made = TypeVar("Made")


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
            job.processes.wait()
        with job.timed(phase):
            result = make(*arguments)
        if job.leads:
            job.processes.wait()
        return result

    return made


def _picture_inputs(job: Job, embedder: Embedder, table: LabeledImages) -> PictureInputs:
    """The files, or what was decoded of them once."""
    data, transform = job.experiment.data, train_transform_of(job, embedder)
    views = _views(job, embedder, table, lambda images: images, {}, np.uint8, "resizing pictures")

    def decoded() -> DecodedPictures:
        return decoded_pictures(
            table,
            digest=views.picture_digest,
            at_least=transform.at_least,
            progress=job.progress,
        )

    return PictureInputs(
        table,
        transform,
        seed=job.experiment.seed,
        workers=data.workers,
        device=job.fabric.device,
        decoded=_made_once(job, "decoding", decoded) if data.keep_decoded else None,
        plain=_made_once(job, "decoding", lambda: views.view(0)) if data.keep_decoded else None,
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
