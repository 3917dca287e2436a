"""Embeddings of the test images by the start and by the chosen model, in one pass over the images."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.embedding import embed_with
from lookalike.models.embedder import Embedder
from lookalike.models.fuse import fuse_for_inference
from lookalike.models.views import image_views, mean_of_views
from lookalike.training.context import RunContext
from lookalike.training.feature_cache import FeatureCache
from lookalike.training.trainable import TrainablePart

Matrix = NDArray[np.float32]


def embed_test_images(
    context: RunContext, trainable: TrainablePart, start: Embedder, cache: FeatureCache | None
) -> tuple[Matrix, Matrix]:
    """Embeddings by `start` and by the trained network; both have the same frozen part."""
    with context.clock.phase("test"):
        if context.mode == "frozen" and cache is not None:
            return _from_cache(context, trainable, start, cache.of_table(context.split.test))
        return _from_images(context, trainable, start)


def _from_cache(
    context: RunContext, trainable: TrainablePart, start: Embedder, cache: FeatureCache
) -> tuple[Matrix, Matrix]:
    views = range(trainable.embedder.config.views)
    cache.ensure(views)
    arrays = [torch.from_numpy(np.array(cache.array(view))) for view in views]
    pooled = mean_of_views([context.fabric.to_device(array) for array in arrays])
    with torch.inference_mode():
        first, second = (model.project(pooled).cpu().numpy() for model in (start, trainable.embedder))
    return first, second


def _from_images(context: RunContext, trainable: TrainablePart, start: Embedder) -> tuple[Matrix, Matrix]:
    test, views = context.split.test, trainable.embedder.config.views
    fused = [fuse_for_inference(model) for model in (start, trainable.embedder)]
    if context.mode == "partial":
        heads = [TrainablePart(model, context.mode, trainable.frozen_stages) for model in fused]
        frozen = fused[0].frozen_part(trainable.frozen_stages)

        def both(images: Tensor) -> list[Tensor]:
            maps = [frozen(view) for view in image_views(images, views)]
            return [
                head.embedder.project(mean_of_views([head.pooled(view) for view in maps])) for head in heads
            ]
    else:

        def both(images: Tensor) -> list[Tensor]:
            return [model(images) for model in fused]

    shares = embed_with(
        both,
        trainable.embedder.preprocessing,
        test.rows(range(*context.processes.share(len(test)))),
        workers=context.experiment.data.workers,
        device=context.fabric.device,
        progress=context.progress,
        phase="test images",
    )
    first, second = (_gather(context, share) for share in shares)
    return first, second


def _gather(context: RunContext, share: Matrix) -> Matrix:
    """The rows of all processes, each of which embeds some of the images."""
    return context.processes.gather(torch.from_numpy(share).to(context.fabric.device)).cpu().numpy()
