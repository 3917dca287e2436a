"""How the images of a run become inputs of its network, mode by mode, with everything made once.

| mode     | inputs                                                                                  |
|----------|-----------------------------------------------------------------------------------------|
| finetune | the files                                                                               |
| partial  | activations after the first stages, `train.cached_views` views of each image                 |
| frozen   | pooled vectors                                                                          |
"""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from lookalike.data.dataset import LabeledImages
from lookalike.data.transforms import TrainTransform
from lookalike.models import pooling
from lookalike.models.embedder import Embedder
from lookalike.models.fuse import fuse_for_inference
from lookalike.training.context import RunContext
from lookalike.training.feature_cache import CachedViews, cached_rows, weight_digest
from lookalike.training.inputs import CachedInputs, ImageInputs, Inputs
from lookalike.training.trainable import TrainablePart

Network = TypeVar("Network", bound=nn.Module)
Made = TypeVar("Made")


def build_inputs(context: RunContext, trainable: TrainablePart, table: LabeledImages) -> Inputs:
    """Inputs of the tail for the images of `table`; parts of `context.split.trainval` share one cache."""
    if context.mode == "finetune":
        return _image_inputs(context, trainable.embedder, table)
    known = context.split.trainval
    whole = known if set(table.paths) <= set(known.paths) else table  # test classes, where these select
    place = {path: row for row, path in enumerate(whole.paths)}
    return CachedInputs(
        cached_view(context, trainable, whole),
        table,
        np.array([place[path] for path in table.paths]),
        views=context.experiment.train.cached_views if context.mode == "partial" else 1,
        seed=context.experiment.seed,
    )


def cached_view(
    context: RunContext, trainable: TrainablePart, table: LabeledImages
) -> Callable[[int], NDArray[Any]]:
    """What the part of the network that never trains makes of a view of every image, (N, ...)."""
    digest = table.digest()
    if digest not in context.views:
        view = (_stem_view if context.mode == "partial" else _pooled_view)(
            context, trainable.embedder.eval(), table
        )
        context.views[digest] = _made_once(context, "embedding", view)
    return context.views[digest]


def _made_once(context: RunContext, phase: str, make: Callable[..., Made]) -> Callable[..., Made]:
    """`make`, at the first call with its arguments, in the leading process first: the others find the cache
    full."""

    @cache
    def made(*arguments: Any) -> Made:
        if not context.is_main_process:
            context.processes.barrier()
        with context.timed(phase):
            result = make(*arguments)
        if context.is_main_process:
            context.processes.barrier()
        return result

    return made


def _image_inputs(context: RunContext, embedder: Embedder, table: LabeledImages) -> ImageInputs:
    """The files, decoded and augmented as they are needed."""
    return ImageInputs(
        table,
        build_train_transform(context, embedder),
        seed=context.experiment.seed,
        workers=context.experiment.data.workers,
        device=context.fabric.device,
    )


def _stem_view(
    context: RunContext, embedder: Embedder, table: LabeledImages
) -> Callable[[int], NDArray[Any]]:
    """Activations after the first stages, in half precision."""
    stem = embedder.frozen_part(context.frozen_stages)
    outputs = _lazily(stem, lambda fast, images: fast(images))
    key = {"weights": weight_digest([stem]), "frozen_stages": context.frozen_stages}
    return _views(context, embedder, table, outputs, key, np.float16, "first stages").view


def _pooled_view(
    context: RunContext, embedder: Embedder, table: LabeledImages
) -> Callable[[int], NDArray[Any]]:
    """Pooled vectors; one pass over the images serves every pooling but k_max, and every norm."""
    config, phase = embedder.config, "embedding images"
    key: dict[str, Any] = {"weights": weight_digest([embedder.backbone])}
    if config.pooling not in pooling.FROM_BOTH:
        outputs = _lazily(embedder, lambda fast, images: fast.pool(fast.feature_maps(images)))
        key["pooling"] = [config.pooling, config.k, config.norm]
        return _views(context, embedder, table, outputs, key, np.float32, phase).view
    outputs = _lazily(embedder, lambda fast, images: pooling.average_and_maximum(fast.feature_maps(images)))
    views = _views(context, embedder, table, outputs, key, np.float32, phase)

    def pooled(both_BG: Tensor) -> Tensor:
        return pooling.normed(pooling.from_average_and_maximum(both_BG, config.pooling), config.norm)

    return lambda number: cached_rows(
        pooled, views.view(number), {"pooled": [views.key_of(number), config.pooling, config.norm]}
    )


def _views(
    context: RunContext,
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
        build_train_transform(context, embedder),
        key=key,
        seed=context.experiment.seed,
        dtype=dtype,
        batch_size=64,
        workers=context.experiment.data.workers,
        device=context.fabric.device,
        progress=context.progress,
        phase=phase,
    )


def _lazily(module: Network, use: Callable[[Network, Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """`use` of images with the module's fast copy, which is made at the first call, if there is one."""
    fast = cache(lambda: fuse_for_inference(module))
    return lambda images: use(fast(), images)


def build_train_transform(context: RunContext, embedder: Embedder) -> TrainTransform:
    """The random crops of the experiment, at the network's size."""
    data = context.experiment.data
    return TrainTransform(
        embedder.preprocessing, scale=data.crop_scale, ratio=data.crop_ratio, flip=0.5 if data.flip else 0.0
    )
