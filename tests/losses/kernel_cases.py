"""Losses that are computed in chunks, and what their forms are compared by."""

import torch
from torch import Tensor

from lookalike.losses import LOSSES, ProxyLoss
from lookalike.losses.kernels.chunks import Part

CASES = {
    "proxy_anchor": ("proxy_anchor", {}),
    "proxy_anchor, steep": ("proxy_anchor", {"scale": 300.0, "margin": 0.3}),
    "proxy_nca": ("proxy_nca", {}),
    "proxy_nca, softmax form": ("proxy_nca", {"include_positive": True, "temperature": 1 / 32}),
    "proxy_nca, smoothed": (
        "proxy_nca",
        {"include_positive": True, "label_smoothing": 0.1, "temperature": 1 / 9},
    ),
    "proxy_nca, steep": ("proxy_nca", {"temperature": 1 / 700}),
    "proxy_nca_pp": ("proxy_nca_pp", {}),
    "norm_softmax": ("norm_softmax", {}),
    "norm_softmax, steep": ("norm_softmax", {"temperature": 0.001}),
    "cos_face": ("cos_face", {}),
    "arc_face": ("arc_face", {}),
    "arc_face, steep": ("arc_face", {"scale": 800.0}),
    "soft_triple": ("soft_triple", {"centers_per_class": 3}),
    "soft_triple, one center": ("soft_triple", {"centers_per_class": 1}),
    "soft_triple, two centers": ("soft_triple", {"centers_per_class": 2}),
    "soft_triple, steep": ("soft_triple", {"centers_per_class": 2, "gamma": 0.001, "scale": 900.0}),
}


DIM = 7


def build(case: str, classes: int, dtype=torch.float64) -> ProxyLoss:
    name, arguments = CASES[case]
    return LOSSES[name](classes, DIM, **arguments, generator=torch.Generator().manual_seed(1)).to(dtype)


def batch(classes: int, size: int, seed: int = 0, dtype=torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(size, DIM, generator=generator, dtype=dtype).requires_grad_()
    return embeddings, torch.randint(0, classes, (size,), generator=generator)


def results(loss: ProxyLoss, embeddings: Tensor, labels: Tensor, form: str) -> tuple[Tensor, Tensor, Tensor]:
    loss.form = form
    value = loss(embeddings, labels)
    return value.detach(), *torch.autograd.grad(value, (embeddings, loss.proxies))


def of_part(loss: ProxyLoss, embeddings: Tensor, labels: Tensor, part: Part) -> tuple[Tensor, Tensor, Tensor]:
    value = loss.chunked(embeddings, loss.proxies, labels, part)
    return value.detach(), *torch.autograd.grad(value, (embeddings, loss.proxies))


def check(ours: tuple[Tensor, ...], dense: tuple[Tensor, ...], tolerance: float) -> None:
    for mine, theirs in zip(ours, dense, strict=True):
        assert mine.dtype == theirs.dtype
        scale = float(theirs.abs().max())
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance * max(scale, 1))
