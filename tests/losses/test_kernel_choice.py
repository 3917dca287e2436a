"""When a loss is computed in chunks, what is kept between two passes, and what cannot be differentiated twice."""

import pytest
import torch

from lookalike.errors import ArgumentError
from lookalike.losses.base import CHUNKED_FROM
from lookalike.losses.kernels.chunks import Part

from .kernel_cases import DIM, batch, build, check, of_part, results


def test_automatic_choice_is_by_size():
    loss = build("norm_softmax", CHUNKED_FROM // 8)
    assert loss.in_chunks(torch.zeros(8, DIM))
    assert not loss.in_chunks(torch.zeros(7, DIM))
    loss.form = "dense"
    assert not loss.in_chunks(torch.zeros(8, DIM))
    loss.form = "denze"
    with pytest.raises(ArgumentError, match="did you mean 'dense'"):
        loss(torch.ones(1, DIM, dtype=torch.float64), torch.tensor([0]))


def test_a_second_derivative_is_refused_with_the_remedy():
    loss = build("proxy_anchor", 6)
    embeddings, labels = batch(6, 5)
    loss.form = "chunked"
    with pytest.raises(ArgumentError, match="second derivative"):
        torch.autograd.grad(loss(embeddings, labels), embeddings, create_graph=True)
    loss.form = "dense"
    (first,) = torch.autograd.grad(loss(embeddings, labels), embeddings, create_graph=True)
    assert first.requires_grad


@pytest.mark.parametrize(("size", "again"), [(DIM, 0), (DIM + 1, 4)])
def test_similarities_are_kept_where_they_fit_into_the_gradient(size, again, monkeypatch):
    """Of 11 classes in chunks of 3: four products for similarities, four for gradients by proxies."""
    loss = build("norm_softmax", 11)
    embeddings, labels = batch(11, size)
    dense = results(loss, embeddings, labels, "dense")
    products = []
    plain = torch.mm
    monkeypatch.setattr(torch, "mm", lambda *args, **out: products.append(1) or plain(*args, **out))
    check(of_part(loss, embeddings, labels, Part(chunk=3)), dense, 1e-12)
    assert len(products) == 4 + again + 4
