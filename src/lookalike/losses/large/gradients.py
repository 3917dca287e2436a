"""Losses that find their gradients while they compute their value.

Autograd would keep several B x C matrices until `backward`. A loss that goes through the classes in chunks
can finish the gradients of a chunk while it is in the cache, so it hands over value and gradients together,
and `backward` only multiplies them by the gradient that arrives (and not even that when it is 1).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lookalike.errors import ArgumentError
from lookalike.losses.base import full_precision

Compute = Callable[[Tensor, Tensor, bool, bool], tuple[Tensor, Tensor | None, Tensor | None]]
"""(unit_BD, proxies_PD, gradient by the first wanted, by the second wanted) -> value and both gradients."""


class _GradientsInForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, compute: Compute, embeddings_BD: Tensor, proxies_PD: Tensor) -> Tensor:
        ctx.compute, ctx.wanted = compute, ctx.needs_input_grad[1:]
        ctx.save_for_backward(embeddings_BD, proxies_PD)
        value, *ctx.gradients = _by_raw(compute, embeddings_BD, proxies_PD, *ctx.wanted)
        return value

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise ArgumentError(
                "a loss computed in chunks has no second derivative; "
                "set loss.form = 'dense' before calling it, or leave out create_graph=True"
            )
        # Handing the tensors over lets autograd keep them as .grad without a copy; the rare second backward
        # of one graph (retain_graph=True) computes them anew.
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:
            with full_precision(grad_output):
                gradients = _by_raw(ctx.compute, *ctx.saved_tensors, *ctx.wanted)[1:]
        if grad_output.device.type != "cpu" or grad_output != 1:
            for gradient in gradients:
                if gradient is not None:
                    gradient.mul_(grad_output)
        return None, *gradients


def _by_raw(
    compute: Compute, embeddings_BD: Tensor, proxies_PD: Tensor, want_embeddings: bool, want_proxies: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """`compute` of the embeddings at length 1 (as in `unit_rows`), with the gradient by the raw ones."""
    lengths_B1 = torch.linalg.vector_norm(embeddings_BD, dim=1, keepdim=True)
    largest_B1 = None
    if embeddings_BD.device.type != "cpu" or not _squares_fit(lengths_B1):
        largest_B1 = embeddings_BD.abs().amax(dim=1, keepdim=True)
        embeddings_BD = embeddings_BD / largest_B1.masked_fill_(largest_B1 == 0, 1)
        lengths_B1 = torch.linalg.vector_norm(embeddings_BD, dim=1, keepdim=True).clamp_min_(0.5)
    unit_BD = embeddings_BD / lengths_B1
    value, to_unit_BD, to_proxies_PD = compute(unit_BD, proxies_PD, want_embeddings, want_proxies)
    if to_unit_BD is not None:
        along_B1 = (unit_BD * to_unit_BD).sum(dim=1, keepdim=True)
        to_unit_BD.addcmul_(unit_BD, along_B1, value=-1).div_(lengths_B1)
        if largest_B1 is not None:
            to_unit_BD.div_(largest_B1)
    return value, to_unit_BD, to_proxies_PD


def _squares_fit(lengths_B1: Tensor) -> bool:
    """Whether squares of these lengths are ordinary numbers of float32: no scaling is needed then."""
    shortest, longest = lengths_B1.aminmax()
    return float(shortest) > 1e-15 and float(longest) < 1e15


def loss_with_gradients(compute: Compute, embeddings_BD: Tensor, proxies_PD: Tensor) -> Tensor:
    """The scalar of `compute`, differentiable once by embeddings and proxies.

    Embeddings are brought to length 1 here; everything runs in at least float32, with autocast off.
    """
    with full_precision(embeddings_BD):
        dtype = torch.promote_types(torch.promote_types(embeddings_BD.dtype, proxies_PD.dtype), torch.float32)
        embeddings_BD, proxies_PD = embeddings_BD.to(dtype), proxies_PD.to(dtype)
        if torch.is_grad_enabled() and (embeddings_BD.requires_grad or proxies_PD.requires_grad):
            return _GradientsInForward.apply(compute, embeddings_BD, proxies_PD)  # type: ignore[no-any-return]
        return _by_raw(compute, embeddings_BD, proxies_PD, False, False)[0]
