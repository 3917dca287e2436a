"""An autograd function whose gradients are found in the forward pass.

Autograd would keep several B x P matrices until `backward`. A loss that is computed in chunks finishes the
gradients of a chunk while it is in the cache; `backward` only multiplies them by the incoming gradient.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lookalike.errors import ArgumentError
from lookalike.losses.functional import full_precision, unit_rows


class ValueAndGradients(NamedTuple):
    """A loss with its gradients by unit embeddings and by proxies; None where a gradient is not wanted."""

    value: Tensor
    to_unit_BD: Tensor | None
    to_proxies_PD: Tensor | None


Compute = Callable[[Tensor, Tensor, bool, bool], ValueAndGradients]
"""(unit embeddings, proxies, is the gradient by the first wanted, by the second) -> the loss."""


class _GradientsInForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, compute: Compute, unit_BD: Tensor, proxies_PD: Tensor) -> Tensor:
        ctx.compute = compute
        ctx.save_for_backward(unit_BD, proxies_PD)
        value, *ctx.gradients = compute(unit_BD, proxies_PD, *ctx.needs_input_grad[1:])
        return value

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise ArgumentError(
                "a loss computed in chunks has no second derivative; "
                "set loss.form = 'dense' before calling it, or leave out create_graph=True"
            )
        # Giving the tensors away lets autograd keep them as .grad without a copy. A second backward pass of
        # one graph (retain_graph=True) is rare and computes them again.
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:
            _, *gradients = ctx.compute(*ctx.saved_tensors, *ctx.needs_input_grad[1:])
        if grad_output.device.type != "cpu" or grad_output != 1:
            for gradient in gradients:
                if gradient is not None:
                    gradient.mul_(grad_output)
        return None, *gradients


def loss_with_gradients(compute: Compute, embeddings_BD: Tensor, proxies_PD: Tensor) -> Tensor:
    """The loss that `compute` finds, once differentiable by embeddings and proxies; in at least float32."""
    with full_precision(embeddings_BD):
        unit_BD = unit_rows(embeddings_BD)
        dtype = torch.promote_types(unit_BD.dtype, proxies_PD.dtype)
        unit_BD, proxies_PD = unit_BD.to(dtype), proxies_PD.to(dtype)
        if torch.is_grad_enabled() and (unit_BD.requires_grad or proxies_PD.requires_grad):
            return _GradientsInForward.apply(compute, unit_BD, proxies_PD)  # type: ignore[no-any-return]
        return compute(unit_BD, proxies_PD, False, False).value


def value_and_gradients(
    function: Callable[..., Tensor], *inputs: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """A scalar function at `inputs`, and its gradients by autograd."""
    with torch.enable_grad():
        inputs = tuple(x.detach().requires_grad_() for x in inputs)
        value = function(*inputs)
        return value.detach(), torch.autograd.grad(value, inputs)
