"""Views of an image: what is averaged, what it is saved with, and what stays as it was."""

import pytest
import torch

from lookalike.errors import ArgumentError
from lookalike.models import build_embedder
from lookalike.models.batch_norm import batch_norms
from lookalike.models.checkpoint import fingerprint, load_model, save_model
from lookalike.models.fuse import fuse_for_inference
from lookalike.models.views import image_views, mean_of_views


@pytest.fixture
def embedder():
    return build_embedder("resnet18", weights="none", size=64, embedding_dim=8).eval()


@pytest.fixture
def images():
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (3, 3, 64, 64), dtype=torch.uint8, generator=generator)


def test_the_second_view_is_the_mirror_image():
    row = torch.arange(3, dtype=torch.uint8).reshape(1, 1, 1, 3)
    assert [view.flatten().tolist() for view in image_views(row, 2)] == [[0, 1, 2], [2, 1, 0]]
    assert [view.flatten().tolist() for view in image_views(row, 1)] == [[0, 1, 2]]


def test_the_mean_of_one_view_is_that_view():
    views = (torch.tensor([1.0, 2.0]), torch.tensor([3.0, 6.0]))
    assert mean_of_views(views).tolist() == [2.0, 4.0]
    assert mean_of_views(views[:1]) is views[0]


@torch.no_grad()
def test_two_views_project_the_mean_of_both_pooled_vectors(embedder, images):
    one, mirrored = (embedder.pool(embedder.feature_maps(view)) for view in (images, images.flip(-1)))
    torch.testing.assert_close(embedder(images), embedder.project(one))
    embedder.set_views(2)
    torch.testing.assert_close(embedder(images), embedder.project((one + mirrored) / 2))
    torch.testing.assert_close(embedder(images), embedder(images.flip(-1)))  # mirroring changes nothing
    fused = fuse_for_inference(embedder)
    torch.testing.assert_close(fused(images), embedder(images), rtol=1e-3, atol=1e-4)
    assert not batch_norms(fused)


def test_views_are_saved_with_the_model_and_are_in_its_fingerprint(embedder, images, tmp_path):
    before = fingerprint(embedder)
    embedder.set_views(2)
    assert fingerprint(embedder) != before
    save_model(tmp_path, embedder)
    loaded, _ = load_model(tmp_path)
    assert loaded.config.views == 2
    with torch.no_grad():
        torch.testing.assert_close(loaded(images), embedder(images))


def test_other_numbers_of_views_are_refused(embedder):
    with pytest.raises(ArgumentError, match="views"):
        embedder.set_views(3)


def test_the_stages_of_a_network_are_found_in_inference_mode_too(embedder):
    with torch.inference_mode():
        assert [name for name, _ in embedder.named_stages] == [
            name for name, _ in fuse_for_inference(embedder).named_stages
        ]
