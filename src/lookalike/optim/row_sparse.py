"""An optimizer for millions of proxies: a step updates only the rows that have a gradient.

A dense step reads and writes every row, though with sampled classes most have no gradient. Here the update of
a row without gradient is deferred until the row has one again, or until `catch_up`. Gradients may be sparse
COO tensors (`Sampled(sparse_gradients=True)`, `nn.Embedding(sparse=True)`), or dense, where rows of exact
zeros count as without gradient.

Deferred updates, compared with the dense optimizer that gets a zero gradient for the row:

* Weight decay is applied exactly, at the learning rates of the steps that were missed. It is decoupled:
  p *= 1 - lr*weight_decay.
* The moments shrink by beta^steps, as they would. The moves that dense AdamW makes with the remaining momentum are
  left out: rows without gradient are not moved. With beta1 = 0 both are equal.

Until then the parameter holds the row as of its last update; weight decay changes only its length, on which
losses of cosine similarities do not depend.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import StateDict

from lookalike.errors import ArgumentError
from lookalike.utils.validation import check_at_least, check_between, check_choice

Group = dict[str, Any]
State = dict[str, Tensor]

ROWS_AT_A_TIME = 4096  # 2 MB of float32 at dimension 128, as the chunks of losses; 8192 took a third longer


class RowSparseAdamW(Optimizer):
    """AdamW for rows with a gradient; bias is corrected by the number of all steps, as in dense AdamW.

    Args:
        lr, betas, eps, weight_decay: as torch's AdamW, with its defaults.
        second_moment: "element", as AdamW; or "row", one running mean of each row's mean squared gradient,
            which saves a matrix of the size of the parameter. It is another optimizer then: steps keep the
            direction of the momentum.
        first_moment: "full", in the parameter's number type; or "bfloat16", kept as bfloat16 between steps,
            half of float32. Each entry is rounded to the nearest of 8 significant bits, so by at most 1 in
            256, when it is stored: after the step that it takes part in unrounded, and after it faded over
            missed steps. A constant gradient g is followed to within g/(256 (1 - beta1)), 4 % at 0.9: from
            nearer, a step moves the moment by less than half its last bit. beta1 is at most 0.95.

    Extra memory: 8 bytes per row, and a matrix of the parameter's size for each moment that has one: the first
    unless beta1 is 0 ("bfloat16": 2 bytes per entry), the second when it is by element ("row": 4 bytes per row).

    Raises:
        ArgumentError: an argument is out of range, a parameter is no matrix, or beta1 is above 0.95 with
            first_moment "bfloat16".
    """

    # Without the wrappers that keep them out of compiled graphs: those load torch's whole compiler, 150 MB.
    add_param_group = inspect.unwrap(Optimizer.add_param_group)
    zero_grad = inspect.unwrap(Optimizer.zero_grad)

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        second_moment: str = "element",
        first_moment: str = "full",
    ) -> None:
        for name, beta in zip(("beta1", "beta2"), betas, strict=True):
            check_between(name, beta, 0, 0.999999)
        check_choice("second_moment", second_moment, ("element", "row"))
        check_choice("first_moment", first_moment, ("full", "bfloat16"))
        if first_moment == "bfloat16" and betas[0] > 0.95:
            raise ArgumentError(
                f"beta1 is {betas[0]} with first_moment 'bfloat16', whose 8 bits do not keep such small changes "
                "of the moment; lower beta1 to 0.95 or less, or use first_moment='full'"
            )
        check_at_least("lr", lr, 0)
        check_between("weight_decay * lr", weight_decay * lr, 0, 0.999)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "second_moment": second_moment, "first_moment": first_moment})
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.ndim != 2:
                    raise ArgumentError(
                        f"a parameter has shape {tuple(parameter.shape)}; row-sparse optimizers take "
                        "matrices (proxies); give the others to another optimizer"
                    )

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step of the rows with a gradient."""
        value = None
        if closure is not None:
            with torch.enable_grad():
                value = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step(group, parameter)
        return value

    def _step(self, group: dict[str, Any], parameter: Tensor) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.int64)
            state["missed"] = torch.zeros(len(parameter), dtype=torch.int32, device=parameter.device)
            state["log_decay"] = parameter.new_zeros(len(parameter))
            if group["betas"][0] > 0:
                dtype = torch.bfloat16 if group["first_moment"] == "bfloat16" else parameter.dtype
                state["exp_avg"] = torch.zeros_like(parameter, dtype=dtype)
            by_row = group["second_moment"] == "row"
            state["exp_avg_sq"] = parameter.new_zeros(len(parameter), 1 if by_row else parameter.shape[1])
        state["step"] += 1
        log_decay = math.log1p(-group["lr"] * group["weight_decay"])
        for rows, gradient in _visited(parameter):
            self._catch_up(group, parameter, state, rows)
            self._move(group, parameter, state, rows, gradient)
            state["missed"][rows] = -1  # which the next two lines bring to 0
            state["log_decay"][rows] = -log_decay
        state["missed"] += 1
        state["log_decay"] += log_decay

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Loads what `state_dict` returned, in the saved dtypes; torch's own method casts to the parameter's."""
        super().load_state_dict({**state_dict, "state": {}})
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        for index, saved in state_dict["state"].items():
            device = parameters[index].device
            self.state[parameters[index]] = {
                name: value if name == "step" else value.to(device) for name, value in saved.items()
            }

    @torch.no_grad()
    def catch_up(self) -> None:
        """Applies the deferred updates of all rows: before saving or measuring."""
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state.get(parameter)
                if state:
                    for first in range(0, len(parameter), ROWS_AT_A_TIME):
                        end = min(first + ROWS_AT_A_TIME, len(parameter))
                        rows = torch.arange(first, end, device=parameter.device)
                        self._catch_up(group, parameter, state, rows)
                    state["missed"].zero_()
                    state["log_decay"].zero_()

    def _catch_up(self, group: Group, parameter: Tensor, state: State, rows: Tensor) -> None:
        missed = state["missed"][rows].to(parameter.dtype)[:, None]
        for name, beta in zip(("exp_avg", "exp_avg_sq"), group["betas"], strict=True):
            if name in state:
                faded = state[name][rows].to(parameter.dtype).mul_(beta**missed)
                state[name][rows] = faded.to(state[name].dtype)
        if group["weight_decay"] > 0:
            parameter[rows] = parameter[rows].mul_(state["log_decay"][rows].exp()[:, None])

    def _move(self, group: Group, parameter: Tensor, state: State, rows: Tensor, gradient: Tensor) -> None:
        (beta1, beta2), lr, step = group["betas"], group["lr"], int(state["step"])
        first = gradient
        if beta1 > 0:
            first = state["exp_avg"][rows].to(gradient.dtype).lerp_(gradient, 1 - beta1)
            state["exp_avg"][rows] = first.to(state["exp_avg"].dtype)
        squares = gradient.square()
        if group["second_moment"] == "row":
            squares = squares.mean(dim=1, keepdim=True)
        second = state["exp_avg_sq"][rows].mul_(beta2).add_(squares, alpha=1 - beta2)
        state["exp_avg_sq"][rows] = second
        lengths = second.div_(1 - beta2**step).sqrt_().add_(group["eps"])
        moved = parameter[rows].mul_(1 - lr * group["weight_decay"])
        parameter[rows] = moved.addcdiv_(first, lengths, value=-lr / (1 - beta1**step))


def _visited(parameter: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Blocks of rows that have a gradient, each row once, with their gradients."""
    gradient = parameter.grad
    assert gradient is not None
    if not gradient.is_sparse:
        alive = [block.any(dim=1) for block in torch.split(gradient, ROWS_AT_A_TIME)]
        rows = torch.cat(alive).nonzero()[:, 0]
        for block in torch.split(rows, ROWS_AT_A_TIME):
            yield block, gradient[block]
        return
    rows = gradient._indices()[0]
    if not gradient.is_coalesced() and bool((rows[1:] <= rows[:-1]).any()):
        gradient = gradient.coalesce()
        rows = gradient._indices()[0]
    values = torch.split(gradient._values(), ROWS_AT_A_TIME)
    yield from zip(torch.split(rows, ROWS_AT_A_TIME), values, strict=True)
