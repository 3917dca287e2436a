"""Builds the optimizers of a run, with parameter groups for backbone, head and proxies.

The loss's parameters are always in an optimizer: proxies that nobody updates are the oldest silent bug of
proxy-based training. Each group keeps its own base learning rate; a schedule scales them all by one factor.
"""

from collections.abc import Iterable
from typing import Protocol

import torch
from lightning_fabric import Fabric
from torch import nn
from torch.nn import Parameter
from torch.optim import Optimizer

from lookalike.config.schema import TrainSettings
from lookalike.errors import ArgumentError
from lookalike.losses import MetricLoss
from lookalike.models.embedder import Embedder
from lookalike.optim.optimizers import Group, Optimizers
from lookalike.optim.row_sparse import RowSparseAdamW


class Network(Protocol):
    """What a step trains; see `training.trainable.TrainablePart`."""

    @property
    def embedder(self) -> Embedder: ...

    def backbone_parameters(self) -> list[Parameter]: ...


def build_optimizers(
    settings: TrainSettings, trainable: Network, loss: MetricLoss, fabric: Fabric
) -> Optimizers:
    """The optimizers of `settings` over the groups 'backbone', 'head' and 'proxies' (empty ones left out).

    Raises:
        ArgumentError: a learning rate is not set, or row-sparse steps are asked for parameters that are no matrices.
    """
    decay, model = settings.weight_decay, trainable.embedder
    network = _group("backbone", trainable.backbone_parameters(), settings.lr, decay)
    network += _group("head", model.projection.parameters(), settings.head_lr, decay)
    proxies = _group("proxies", loss.parameters(), settings.proxy_lr, decay)
    if not proxies or (settings.proxy_optimizer == "same" and not settings.shard_proxies):
        parts: list[tuple[nn.Module, Optimizer]] = [
            (nn.ModuleList([model, loss]), _optimizer(settings, network + proxies))
        ]
        return Optimizers(parts, fabric)
    of_proxies = _optimizer if settings.proxy_optimizer == "same" else _row_sparse
    return Optimizers([(model, _optimizer(settings, network)), (loss, of_proxies(settings, proxies))], fabric)


def _group(name: str, parameters: Iterable[Parameter], lr: float | None, decay: float) -> list[Group]:
    listed = list(parameters)
    if not listed:
        return []
    if lr is None:
        raise ArgumentError(f"no learning rate for the group '{name}'; set train.{_RATE[name]}")
    return [{"params": listed, "lr": lr, "base_lr": lr, "weight_decay": decay, "name": name}]


_RATE = {"backbone": "lr", "head": "head_lr", "proxies": "proxy_lr"}


def _optimizer(settings: TrainSettings, groups: list[Group]) -> Optimizer:
    fused = all(_fusible(parameter) for group in groups for parameter in group["params"]) or None
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(groups, eps=settings.compat.eps, fused=fused)
    if settings.optimizer == "adam":
        return torch.optim.Adam(groups, eps=settings.compat.eps, fused=fused)
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, momentum=settings.momentum)
    return torch.optim.RMSprop(groups, momentum=settings.momentum, eps=settings.compat.eps)


def _fusible(parameter: Parameter) -> bool:
    """Whether torch's fused step can be used, which takes a sixth of the time: on a CPU, for matrices and vectors.

    It reads parameter and moments in memory order, and the moments of a resumed run are not in the channels-last
    order of a convolution's weights. On a GPU, gradients of a fused optimizer cannot be clipped in float16.
    """
    return parameter.device.type == "cpu" and parameter.ndim <= 2 and parameter.is_contiguous()


def _row_sparse(settings: TrainSettings, groups: list[Group]) -> Optimizer:
    (group,) = groups
    other = next((p for p in group["params"] if p.ndim != 2), None)
    if other is not None:
        raise ArgumentError(
            f"train.proxy_optimizer is {settings.proxy_optimizer}, but the loss also trains a parameter of shape "
            f"{tuple(other.shape)}; only matrices of proxies step row by row; use train.proxy_optimizer=same"
        )
    small = settings.proxy_optimizer == "row_sparse_adamw_small"
    return RowSparseAdamW(
        groups,
        lr=group["lr"],
        eps=settings.compat.eps,
        second_moment="row" if small else "element",
        first_moment="bfloat16" if small else "full",
    )
