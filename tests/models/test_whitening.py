"""The closed forms against numpy's plain route, their laws, and what they refuse."""

import numpy as np
import pytest
import torch

from lookalike.errors import ArgumentError
from lookalike.models import projections, whitening


def sample(seed=0, classes=6, per_class=8, width=5):
    generator = torch.Generator().manual_seed(seed)
    centers = torch.randn(classes, width, generator=generator)
    spread = torch.linspace(0.2, 2.0, width)
    labels = torch.arange(classes).repeat_interleave(per_class)
    noise = torch.randn(len(labels), width, generator=generator) * spread
    return centers[labels] + noise + 3.0, labels


def slow_whitened(features, labels, dim, shrinkage):
    """The textbook route: inverse square root by eigenvectors, then principal directions of the result."""
    u, y = features.numpy().astype(np.float64), labels.numpy()
    mean = u.mean(axis=0)
    within = np.zeros((u.shape[1], u.shape[1]))
    for row, label in zip(u, y, strict=True):
        away = row - u[y == label].mean(axis=0)
        within += np.outer(away, away) / len(u)
    shrunk = within + shrinkage * np.trace(within) / u.shape[1] * np.eye(u.shape[1])
    values, vectors = np.linalg.eigh(shrunk)
    root = vectors @ np.diag(values**-0.5) @ vectors.T
    z = (u - mean) @ root
    _, _, directions = np.linalg.svd(z, full_matrices=False)
    return z @ directions[:dim].T


@pytest.mark.parametrize("shrinkage", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("dim", [1, 3, 5])
def test_equals_the_textbook_route_up_to_signs(shrinkage, dim):
    features, labels = sample()
    weight, bias = whitening.whitened(features, labels, dim, shrinkage=shrinkage)
    ours = (features @ weight.T + bias).numpy()
    np.testing.assert_allclose(
        np.abs(ours), np.abs(slow_whitened(features, labels, dim, shrinkage)), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("dim", [1, 4, 11])
def test_fewer_images_than_features_give_the_same(dim):
    features, labels = sample(classes=4, per_class=3, width=20)
    weight, bias = whitening.whitened(features, labels, dim)
    ours = (features @ weight.T + bias).numpy()
    np.testing.assert_allclose(
        np.abs(ours), np.abs(slow_whitened(features, labels, dim, 1.0)), rtol=1e-3, atol=1e-3
    )
    features[7, 3] = float("inf")
    with pytest.raises(ArgumentError, match="not finite"):
        whitening.whitened(features, labels, dim)


def test_within_class_covariance_becomes_nearly_round():
    features, labels = sample(per_class=200)
    weight, bias = whitening.whitened(features, labels, 5, shrinkage=1e-6)
    embedded = (features @ weight.T + bias).double()
    within = sum(
        torch.cov(embedded[labels == label].T, correction=0) * (labels == label).double().mean()
        for label in labels.unique()
    )
    torch.testing.assert_close(within, torch.eye(5, dtype=torch.float64), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("block_size", [1, 3, 1000])
def test_block_size_changes_nothing(block_size):
    features, labels = sample()
    for plain, blocked in (
        (
            whitening.whitened(features, labels, 4),
            whitening.whitened(features, labels, 4, block_size=block_size),
        ),
        (whitening.pca(features, 4), whitening.pca(features, 4, block_size=block_size)),
    ):
        torch.testing.assert_close(plain.weight, blocked.weight)
        torch.testing.assert_close(plain.bias, blocked.bias)


def test_does_not_depend_on_order_or_names_of_classes_or_on_scale():
    features, labels = sample()
    weight, bias = whitening.whitened(features, labels, 3)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(3))
    again = whitening.whitened(features[order], 1000 - 7 * labels[order], 3)
    torch.testing.assert_close(again.weight, weight, atol=1e-5, rtol=1e-4)
    scaled = whitening.whitened(features * 10, labels, 3)
    torch.testing.assert_close(
        features * 10 @ scaled.weight.T + scaled.bias, features @ weight.T + bias, atol=1e-4, rtol=1e-4
    )


@pytest.mark.parametrize("per_class", [8, 1])
@pytest.mark.parametrize("factor", [0.01, 4.0, 1000.0])
def test_the_scale_of_a_part_does_not_matter(per_class, factor):
    features, labels = sample(classes=3 if per_class == 1 else 6, per_class=max(2, per_class), width=10)
    scaled = features * torch.cat([torch.ones(5), torch.full((5,), factor)])
    one, other = (whitening.whitened(x, labels, 3, parts=2) for x in (features, scaled))
    expected, found = (
        (x @ projection.weight.T + projection.bias).abs()  # of the signs, the largest coefficient decides
        for x, projection in ((features, one), (scaled, other))
    )
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)
    in_one = whitening.whitened(scaled, labels, 3)
    assert not torch.allclose((scaled @ in_one.weight.T + in_one.bias).abs(), found, rtol=0.01, atol=0.01)


def test_a_part_that_never_varies_is_no_error():
    features, labels = sample()
    with_constant = torch.cat([features, torch.ones_like(features)], dim=1)
    weight, bias = whitening.whitened(with_constant, labels, 3, parts=2)
    assert bool(torch.isfinite(weight).all() & torch.isfinite(bias).all())


def test_helps_retrieval_of_unseen_classes_where_within_class_spread_hides_them():
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(40, 20, generator=generator)
    labels = torch.arange(40).repeat_interleave(20)
    spread = torch.where(torch.arange(20) < 10, 3.0, 0.3)
    features = centers[labels] + spread * torch.randn(len(labels), 20, generator=generator)
    seen = labels < 20
    weight, bias = whitening.whitened(features[seen], labels[seen], 20, shrinkage=0.1)

    def recall(embeddings):
        unit = torch.nn.functional.normalize(embeddings, dim=1)
        similarities = unit @ unit.T
        similarities.fill_diagonal_(-2)
        return float((labels[~seen][similarities.argmax(1)] == labels[~seen]).double().mean())

    assert recall(features[~seen] @ weight.T + bias) > recall(features[~seen]) + 0.2


def test_pca_by_hand():
    features = torch.tensor([[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]])
    weight, bias = whitening.pca(features, 1)
    torch.testing.assert_close(weight, torch.full((1, 2), 0.5**0.5))
    torch.testing.assert_close(bias, torch.tensor([-(8**0.5)]))


def test_more_directions_than_the_features_span():
    features, labels = sample(classes=2, per_class=2, width=5)
    for start in (lambda: whitening.whitened(features, labels, 4), lambda: whitening.pca(features, 4)):
        with pytest.raises(ArgumentError, match="lower embedding_dim to 3"):
            start()


def test_one_image_a_class_has_no_within_class_covariance():
    features, _ = sample()
    with pytest.raises(ArgumentError, match="use 'pca' instead"):
        whitening.whitened(features, torch.arange(len(features)), 2)


def test_bad_input_is_named():
    features, labels = sample()
    with pytest.raises(ArgumentError, match=r"labels have shape \(3,\)"):
        whitening.whitened(features, labels[:3], 2)
    features[5, 1] = float("nan")
    with pytest.raises(ArgumentError, match=r"not finite in rows 4\.\.7"):
        whitening.whitened(features, labels, 2, block_size=4)


def test_identity_and_random_starts():
    weight, bias = projections.identity(3, 3)
    assert torch.equal(weight, torch.eye(3))
    assert torch.equal(bias, torch.zeros(3))
    with pytest.raises(ArgumentError, match="embedding_dim = 4"):
        projections.identity(4, 3)
    first, second = (projections.random(50, 20, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first.weight, second.weight)
    assert float(first.weight.abs().max()) <= 50**-0.5
    kaiming = projections.random(400, 50, torch.Generator().manual_seed(1), init="kaiming")
    assert float(kaiming.weight.std()) == pytest.approx((2 / 50) ** 0.5, rel=0.02)
