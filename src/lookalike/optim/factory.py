"""Optimizers with parameter groups for backbone, head and proxies.

The loss's parameters are always in an optimizer: proxies that nobody updates are the oldest silent bug of
proxy-based training. Each group keeps its own base learning rate; a schedule scales them all by one factor.

Usually one optimizer holds all groups. Row-sparse proxies need one of their own, and so do sharded ones, whose
moments are saved by class; `Optimizers` steps all of them as one.
"""

from collections.abc import Iterable
from typing import Any, Protocol

import torch
from lightning_fabric import Fabric
from torch import nn
from torch.nn import Parameter
from torch.optim import Optimizer

from lookalike.config.schema import TrainSettings
from lookalike.errors import ArgumentError, NotFiniteError
from lookalike.losses import MetricLoss
from lookalike.models.embedder import Embedder
from lookalike.optim.row_sparse import RowSparseAdamW

Group = dict[str, Any]


class Network(Protocol):
    """What a step trains; see `training.trainable.TrainablePart`."""

    @property
    def embedder(self) -> Embedder: ...

    def backbone_parameters(self) -> list[Parameter]: ...


class Optimizers:
    """Optimizers of disjoint parameters, each with the module that holds them, stepped as one.

    In precision 16-mixed the loss is scaled, and a step whose gradients overflow is skipped; `pop_skipped` counts them.
    """

    def __init__(self, parts: list[tuple[nn.Module, Optimizer]], fabric: Fabric) -> None:
        self.parts = parts
        self._fabric = fabric
        self._scaler: torch.amp.GradScaler | None = getattr(fabric.strategy.precision, "scaler", None)
        self._skipped = 0
        self._steppers: list[Any] = [fabric.setup_optimizers(optimizer) for _, optimizer in parts]
        self.parameters: list[Parameter] = [
            parameter for group in self.groups for parameter in group["params"]
        ]

    @property
    def groups(self) -> list[Group]:
        """The groups of all; `load_state_dict` makes new ones."""
        return [group for _, optimizer in self.parts for group in optimizer.param_groups]

    def scale_rates(self, factor: float) -> None:
        """Sets every group's learning rate to its base rate times `factor`."""
        for group in self.groups:
            group["lr"] = group["base_lr"] * factor

    def reset_state(self, parameters: Iterable[Parameter]) -> None:
        """Drops the moments of parameters, such as coarse proxies after a clustering."""
        for parameter in parameters:
            for _, optimizer in self.parts:
                optimizer.state.pop(parameter, None)

    def step(self, settings: TrainSettings) -> None:
        """Clips the gradients as set, steps, and clears them.

        Raises:
            NotFiniteError: the norm of gradients that are not scaled, and are to be clipped by it, is not finite.
        """
        for (module, _), stepper in zip(self.parts, self._steppers, strict=True):
            if settings.clip_value is not None:
                self._fabric.clip_gradients(module, stepper, clip_val=settings.clip_value)
            if settings.clip_norm is not None:
                norm = self._fabric.clip_gradients(
                    module, stepper, max_norm=settings.clip_norm, error_if_nonfinite=False
                )
                assert norm is not None  # as it is without max_norm
                if self._scaler is None and not bool(torch.isfinite(norm)):
                    raise NotFiniteError("the gradients are not finite")
        if self._scaler is None:
            for stepper in self._steppers:
                stepper.step()
        else:  # stepped by Fabric, the second would be unscaled by what the first has changed
            self._step_scaled(self._scaler)
        # zero_grad without its hooks, which take a few percent of a small step
        for parameter in self.parameters:
            parameter.grad = None

    def _step_scaled(self, scaler: torch.amp.GradScaler) -> None:
        for _, optimizer in self.parts:
            scaler.step(optimizer)
        before = scaler.get_scale()
        scaler.update()
        self._skipped += scaler.get_scale() < before

    def pop_skipped(self) -> int:
        """Steps that were skipped since the last call."""
        skipped, self._skipped = self._skipped, 0
        return skipped

    @property
    def scale(self) -> float:
        """By how much the gradients are too large until `step`."""
        return 1.0 if self._scaler is None else float(self._scaler.get_scale())

    def scaler_state(self) -> dict[str, Any]:
        """The state of the loss's scale; empty without one."""
        return {} if self._scaler is None else self._scaler.state_dict()

    def load_scaler_state(self, state: dict[str, Any]) -> None:
        """Loads what `scaler_state` returned."""
        if self._scaler is not None and state:
            self._scaler.load_state_dict(state)

    def catch_up(self) -> None:
        """Applies the deferred updates of row-sparse proxies; call it before the learning rates change."""
        for _, optimizer in self.parts:
            if isinstance(optimizer, RowSparseAdamW):
                optimizer.catch_up()

    def state_dict(self) -> list[Group]:
        """The state of each; with two, the second is the proxies'."""
        return [optimizer.state_dict() for _, optimizer in self.parts]

    def load_state_dict(self, states: list[Group]) -> None:
        """Loads what `state_dict` returned."""
        for (_, optimizer), state in zip(self.parts, states, strict=True):
            optimizer.load_state_dict(state)


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
