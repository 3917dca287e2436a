"""Optimizers with the three parameter groups of this field: backbone, head and proxies.

The loss's parameters are always in the optimizer: proxies that nobody updates are the oldest silent bug
of proxy-based training. Each group keeps its own base rate; a schedule scales them all by one factor.
"""

from collections.abc import Iterable

import torch
from torch import nn
from torch.nn import Parameter
from torch.optim import Optimizer

from lookalike.errors import ArgumentError
from lookalike.settings import TrainSettings


def build_optimizer(
    settings: TrainSettings,
    *,
    backbone: Iterable[Parameter],
    head: Iterable[Parameter],
    proxies: Iterable[Parameter],
) -> Optimizer:
    """The optimizer of `settings` over the groups 'backbone', 'head' and 'proxies' (empty ones left out).

    Raises:
        ArgumentError: a rate is not set, or no parameter is to be trained.
    """
    decay = settings.weight_decay
    proxy_decay = decay if settings.proxy_weight_decay is None else settings.proxy_weight_decay
    groups = []
    for name, parameters, lr, weight_decay in (
        ("backbone", list(backbone), settings.lr, decay),
        ("head", list(head), settings.head_lr, decay),
        ("proxies", list(proxies), settings.proxy_lr, proxy_decay),
    ):
        if not parameters:
            continue
        if lr is None:
            raise ArgumentError(f"no learning rate for the group '{name}'; set train.{_RATE[name]}")
        groups.append(
            {"params": parameters, "lr": lr, "base_lr": lr, "weight_decay": weight_decay, "name": name}
        )
    if not groups:
        raise ArgumentError("no parameter to train: backbone, head and proxies are all empty or frozen")
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(groups, eps=settings.eps)
    if settings.optimizer == "adam":
        return torch.optim.Adam(groups, eps=settings.eps)
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, momentum=settings.momentum)
    return torch.optim.RMSprop(groups, momentum=settings.momentum, eps=settings.eps)


_RATE = {"backbone": "lr", "head": "head_lr", "proxies": "proxy_lr"}


def scale_rates(optimizer: Optimizer, factor: float) -> None:
    """Sets every group's rate to its base rate times `factor`."""
    for group in optimizer.param_groups:
        group["lr"] = group["base_lr"] * factor


def forget(optimizer: Optimizer, parameters: Iterable[Parameter]) -> None:
    """Drops the moments of parameters that were replaced, such as reclustered coarse proxies."""
    for parameter in parameters:
        optimizer.state.pop(parameter, None)


def clip_gradients(settings: TrainSettings, parameters: Iterable[Parameter]) -> None:
    """Clips gradients by entry or by norm, as set."""
    if settings.clip_value is not None:
        nn.utils.clip_grad_value_(parameters, settings.clip_value)
    if settings.clip_norm is not None:
        nn.utils.clip_grad_norm_(parameters, settings.clip_norm)
