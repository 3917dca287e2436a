"""Pooled vectors and embeddings of all inputs, unaugmented, each process embedding its share."""

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor

from lookalike.models.views import mean_of_views
from lookalike.training.context import RunContext
from lookalike.training.inputs import Inputs
from lookalike.training.trainable import TrainablePart


def embed_all(context: RunContext, trainable: TrainablePart, inputs: Inputs, *, project: bool) -> Tensor:
    """Embeddings (without `project`: pooled vectors) of every input, on the CPU, as the embedder's `forward`."""
    embedder = trainable.embedder

    def finish(pooled: list[Tensor]) -> Tensor:
        mean = mean_of_views(pooled)
        return embedder.project(mean) if project else mean

    return _map_pooled(context, trainable, inputs, embedder.config.views, finish)


def pooled_by_view(context: RunContext, trainable: TrainablePart, inputs: Inputs, views: int) -> list[Tensor]:
    """Pooled vectors of every input, on the CPU: a tensor for each of its first views."""
    stacked = _map_pooled(context, trainable, inputs, views, lambda pooled: torch.stack(pooled, dim=1))
    return [view.contiguous() for view in stacked.unbind(1)]


def _map_pooled(
    context: RunContext,
    trainable: TrainablePart,
    inputs: Inputs,
    views: int,
    function: Callable[[list[Tensor]], Tensor],
) -> Tensor:
    """`function` of the pooled vectors of the first views of every input, batch norm folded into convolutions."""
    trainable.embedder.eval()
    inputs.ensure_views(views)
    fused = trainable.for_inference()
    processes = context.processes.for_count(len(inputs))
    results = []
    # on a CPU the copy computes in model.precision, on a GPU in that of training
    on_cpu = context.fabric.device.type == "cpu"
    with torch.inference_mode(), nullcontext() if on_cpu else context.fabric.autocast():
        for batch in inputs.iter_eval(*processes.share(len(inputs)), views=views):
            result = function([fused.pooled(context.fabric.to_device(view)) for view in batch]).float()
            results.append(result.cpu() if processes.size == 1 else result)  # a GPU need not hold all of them
    return processes.gather(torch.cat(results)).cpu()  # joined here, out of inference mode
