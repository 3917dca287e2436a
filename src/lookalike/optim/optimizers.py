"""The optimizers of a run, stepped as one: clipping, the scale of float16 losses, and states.

Usually one optimizer holds all groups. Row-sparse proxies need one of their own, and so do sharded ones, whose
moments are saved by class.
"""

from collections.abc import Iterable
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import nn
from torch.nn import Parameter
from torch.optim import Optimizer

from lookalike.config.schema import TrainSettings
from lookalike.errors import NotFiniteError
from lookalike.optim.row_sparse import RowSparseAdamW

Group = dict[str, Any]


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
