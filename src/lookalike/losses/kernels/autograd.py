"""Losses that find their gradients while they compute their value.

Autograd would keep several B x C matrices until `backward`. A loss that goes through the classes in chunks
can finish the gradients of a chunk while it is in the cache, so it hands over value and gradients together,
and `backward` only multiplies them by the gradient that arrives (and not even that when it is 1).
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from lookalike.errors import ArgumentError
from lookalike.losses.base import full_precision

Compute = Callable[[Tensor, Tensor, bool, bool], tuple[Tensor, Tensor | None, Tensor | None]]
"""(unit_BD, proxies_PD, gradient by the first wanted, by the second wanted) -> value and both gradients."""


class _GradientsInForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, computes: Sequence[Compute], embeddings_BD: Tensor, *proxies: Tensor) -> Tensor:
        ctx.computes, ctx.wanted = computes, ctx.needs_input_grad[1:]
        ctx.save_for_backward(embeddings_BD, *proxies)
        value, ctx.gradients = _by_raw(computes, embeddings_BD, proxies, ctx.wanted)
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
            embeddings_BD, *proxies = ctx.saved_tensors
            with full_precision(grad_output):
                _, gradients = _by_raw(ctx.computes, embeddings_BD, proxies, ctx.wanted)
        if grad_output.device.type != "cpu" or grad_output != 1:
            for gradient in gradients:
                if gradient is not None:
                    gradient.mul_(grad_output)
        return None, *gradients


def _by_raw(
    computes: Sequence[Compute], embeddings_BD: Tensor, proxies: Sequence[Tensor], wanted: Sequence[bool]
) -> tuple[Tensor, list[Tensor | None]]:
    """The sum of `computes` of the embeddings at length 1 (as in `unit_rows`), with the gradients by the raw
    ones and by the proxies of each."""
    lengths_B1 = torch.linalg.vector_norm(embeddings_BD, dim=1, keepdim=True)
    largest_B1 = None
    if embeddings_BD.device.type != "cpu" or not _squares_fit(lengths_B1):
        largest_B1 = embeddings_BD.abs().amax(dim=1, keepdim=True)
        embeddings_BD = embeddings_BD / largest_B1.masked_fill_(largest_B1 == 0, 1)
        lengths_B1 = torch.linalg.vector_norm(embeddings_BD, dim=1, keepdim=True).clamp_min_(0.5)
    unit_BD = embeddings_BD / lengths_B1
    value, to_unit_BD, *gradients = computes[0](unit_BD, proxies[0], wanted[0], wanted[1])
    for compute, proxies_PD, want in zip(computes[1:], proxies[1:], wanted[2:], strict=True):
        term, to_unit_too_BD, gradient = compute(unit_BD, proxies_PD, wanted[0], want)
        value += term
        gradients.append(gradient)
        if to_unit_BD is not None and to_unit_too_BD is not None:
            to_unit_BD += to_unit_too_BD
    if to_unit_BD is not None:
        along_B1 = (unit_BD * to_unit_BD).sum(dim=1, keepdim=True)
        to_unit_BD.addcmul_(unit_BD, along_B1, value=-1).div_(lengths_B1)
        if largest_B1 is not None:
            to_unit_BD.div_(largest_B1)
    return value, [to_unit_BD, *gradients]


def _squares_fit(lengths_B1: Tensor) -> bool:
    """Whether squares of these lengths are ordinary numbers of float32: no scaling is needed then."""
    shortest, longest = lengths_B1.aminmax()
    return float(shortest) > 1e-15 and float(longest) < 1e15


def loss_with_gradients(
    computes: Sequence[Compute], embeddings_BD: Tensor, proxies: Sequence[Tensor]
) -> Tensor:
    """The sum of the scalars of `computes`, each of its own proxies; differentiable once by all of them.

    Embeddings are brought to length 1 here, once; everything runs in at least float32, with autocast off.
    """
    with full_precision(embeddings_BD):
        dtype = torch.float32
        for x in (embeddings_BD, *proxies):
            dtype = torch.promote_types(dtype, x.dtype)
        embeddings_BD, proxies = embeddings_BD.to(dtype), [x.to(dtype) for x in proxies]
        if torch.is_grad_enabled() and any(x.requires_grad for x in (embeddings_BD, *proxies)):
            return _GradientsInForward.apply(computes, embeddings_BD, *proxies)  # type: ignore[no-any-return]
        return _by_raw(computes, embeddings_BD, proxies, [False] * (1 + len(proxies)))[0]


def weighted(compute: Compute, weight: float) -> Compute:
    """`weight` times a loss."""
    if weight == 1:
        return compute

    def times(
        unit_BD: Tensor, proxies_PD: Tensor, want_unit: bool, want_proxies: bool
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        value, *gradients = compute(unit_BD, proxies_PD, want_unit, want_proxies)
        to_unit_BD, to_proxies_PD = (None if x is None else x.mul_(weight) for x in gradients)
        return value * weight, to_unit_BD, to_proxies_PD

    return times
