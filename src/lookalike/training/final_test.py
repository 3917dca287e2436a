"""Embeddings of the test images by the start and by the chosen model, in one pass over the images."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.data.image_dataset import ImageDataset
from lookalike.data.transforms import EvalTransform
from lookalike.embedding import map_images
from lookalike.models.embedder import Embedder, FrozenStages
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
    processes = context.processes.for_count(len(test))
    fused = [fuse_for_inference(model) for model in (start, trainable.embedder)]
    frozen: FrozenStages | None = None
    if context.mode == "partial":
        frozen = fused[0].frozen_part(trainable.frozen_stages)
    heads = [TrainablePart(model, context.mode, trainable.frozen_stages) for model in fused]

    def both(images: Tensor) -> Tensor:
        """Embeddings (B, 2, D) by both networks, the frozen part run once."""
        if frozen is None:
            return torch.stack([model(images) for model in fused], dim=1)
        maps = [frozen(view) for view in image_views(images, views)]
        pooled = [mean_of_views([head.pooled(view) for view in maps]) for head in heads]
        return torch.stack([head.embedder.project(x) for head, x in zip(heads, pooled, strict=True)], dim=1)

    share = map_images(
        both,
        ImageDataset(test.rows(range(*processes.share(len(test)))), EvalTransform(start.preprocessing)),
        workers=context.experiment.data.workers,
        device=context.fabric.device,
        progress=context.progress,
        phase="test images",
    )
    embeddings = torch.cat([result.float() for _, result in share])
    first, second = processes.gather(embeddings.to(context.fabric.device)).cpu().unbind(1)
    return first.contiguous().numpy(), second.contiguous().numpy()
