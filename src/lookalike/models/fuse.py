"""A copy of a network that is faster at inference: batch norms folded into convolutions, channels last.

In evaluation mode a batch norm is a fixed scale and shift, so it folds into the convolution before it:

    scale * (W x - mean) / sqrt(var + eps) + shift  =  (s W) x + (shift - s mean),   s = scale / sqrt(var + eps)

and convolutions on a CPU run faster on channels-last activations. Together they embed about twice as many
images per second, with the same numbers up to float32 rounding.
"""

import copy
from collections import Counter
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import fuse_conv_bn_eval

from lookalike.models.embedder import Embedder
from lookalike.models.trace import Trace, on_meta, trace

Network = TypeVar("Network", bound=nn.Module)
Folds = list[tuple[str, str]]
"""Paths of a convolution and of the batch norm that directly follows it."""


def fuse_for_inference(network: Network, folds: Folds | None = None) -> Network:
    """A copy of `network` in evaluation mode, batch norms folded into convolutions, channels last.

    `network` is an embedder or a `FrozenStages`; it stays as it is.

    Args:
        folds: what `find_folds` has found for this network, whose numbers alone have changed since; None: found here.
    """
    if folds is None:
        folds = find_folds(network)
    fast: Any = copy.deepcopy(network).eval()
    for convolution, norm in folds:
        old: Any = fast.get_submodule(norm)
        _replace(fast, convolution, fuse_conv_bn_eval(fast.get_submodule(convolution), old))
        _replace(fast, norm, getattr(old, "act", nn.Identity()))  # timm's norms may end in an activation
    fused: Network = fast.to(memory_format=torch.channels_last)
    return fused


def find_folds(network: nn.Module) -> Folds:
    """Paths of the convolutions and batch norms of an embedder or a `FrozenStages` that can be folded.

    A batch norm is folded if, in a trace of the network, each of its calls reads
    exactly what a call of one convolution returned, and nothing else follows that convolution.
    """
    meta: Any = on_meta(network)
    size = meta.preprocessing.size
    found = trace(meta, _call, torch.empty(1, 3, size, size, dtype=torch.uint8, device="meta"))
    return foldable(network, found)


def foldable(network: nn.Module, found: Trace) -> Folds:
    """Paths of every convolution and of the batch norm that directly follows it, at each of its calls."""
    calls = Counter(call.path for call in found.calls)
    read_by: dict[str, list[str]] = {}
    for call in found.calls:
        if isinstance(network.get_submodule(call.path), _BatchNorm):
            before = found.innermost_producer(call)
            if before is not None:
                read_by.setdefault(before.path, []).append(call.path)
    pairs = []
    for path, readers in read_by.items():
        convolution, norm = network.get_submodule(path), network.get_submodule(readers[0])
        if (
            isinstance(convolution, nn.Conv2d)
            and isinstance(norm, _BatchNorm)
            and norm.running_mean is not None
            and len(set(readers)) == 1
            and len(readers) == calls[path] == calls[readers[0]]
        ):
            pairs.append((path, readers[0]))
    return pairs


def _call(network: nn.Module, images: Tensor) -> Tensor:
    """One pass over the network: an embedder of two views would call each module twice."""
    if isinstance(network, Embedder):
        return network.embed_maps(network.feature_maps(images))
    result: Tensor = network(images)
    return result


def _replace(network: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(network.get_submodule(parent), name, module)
