"""The embedder: shapes, dtypes, batch norm, and what it refuses."""

import pytest
import torch

from lookalike.errors import ArgumentError, UnknownNameError
from lookalike.models import build_embedder
from lookalike.models.batch_norm import batch_norms, freeze_batch_norm, set_batch_norm_momentum
from lookalike.models.pooling import NORM_NAMES, POOLING_NAMES


def images(count=2, size=64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8, generator=generator)


def small(**settings):
    return build_embedder("resnet18", weights="none", **{"size": 64, "embedding_dim": 8, **settings}).eval()


@pytest.mark.parametrize("pooling", POOLING_NAMES)
@pytest.mark.parametrize("norm", NORM_NAMES)
def test_every_pooling_and_norm_embeds(pooling, norm):
    embedder = small(pooling=pooling, norm=norm, k=2)
    with torch.no_grad():
        embeddings = embedder(images())
        maps = embedder.feature_maps(images())
        assert torch.equal(embeddings, embedder.project(embedder.pool(maps)))
    assert embeddings.shape == (2, 8)
    assert embeddings.dtype == torch.float32
    assert embedder.pooled_dim == (1024 if pooling in ("catavgmax", "concat") else 512)


def test_without_a_projection_the_pooled_vector_is_the_embedding():
    embedder = small(embedding_dim=None, pooling="average")
    with torch.no_grad():
        maps = embedder.feature_maps(images())
        torch.testing.assert_close(embedder(images()), maps.mean(dim=(2, 3)))
    assert embedder.embedding_dim == embedder.pooled_dim == 512


def test_embeddings_stay_float32_under_autocast():
    embedder = small()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert embedder(images()).dtype == torch.float32


def test_one_seed_one_network_and_the_global_random_state_stays():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, second, other = small(seed=1), small(seed=1), small(seed=2)
    assert torch.equal(torch.get_rng_state(), before)
    names = first.state_dict().keys()
    assert all(torch.equal(first.state_dict()[name], second.state_dict()[name]) for name in names)
    assert not torch.equal(first.projection.weight, other.projection.weight)
    assert not torch.equal(first.backbone.conv1.weight, other.backbone.conv1.weight)


def test_the_input_size_can_be_set():
    own = build_embedder("resnet18", weights="none").preprocessing
    assert (own.size, own.resize) == (224, 235)
    assert (small().preprocessing.size, small().preprocessing.resize) == (64, 64)
    papers = small(size=227, resize=256).preprocessing
    assert (papers.size, papers.resize) == (227, 256)
    assert papers.mean == own.mean


def test_normalized_input_is_the_backbones_scale():
    embedder = build_embedder("tf_efficientnet_lite0", size=32)
    gray = torch.full((1, 3, 32, 32), 191, dtype=torch.uint8)
    torch.testing.assert_close(embedder.normalize_input(gray), torch.full((1, 3, 32, 32), 0.5))


def test_a_projection_can_be_given():
    embedder = small(pooling="average")
    weight, bias = torch.randn(8, 512), torch.randn(8)
    embedder.set_projection(weight, bias)
    pooled = torch.randn(3, 512)
    torch.testing.assert_close(embedder.project(pooled), pooled @ weight.T + bias)
    with pytest.raises(ArgumentError, match=r"shape \(4, 512\) does not fit"):
        embedder.set_projection(weight[:4], bias[:4])
    with pytest.raises(ArgumentError, match="no projection"):
        small(embedding_dim=None).set_projection(weight, bias)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (torch.zeros(1, 3, 8, 8), "float32"),
        (torch.zeros(3, 8, 8, dtype=torch.uint8), "shape"),
        (torch.zeros(1, 1, 8, 8, dtype=torch.uint8), "RGB"),
    ],
)
def test_images_that_are_not_uint8_rgb_are_refused(wrong, said):
    with pytest.raises(ArgumentError, match=said):
        small()(wrong)


def test_names_that_do_not_exist():
    with pytest.raises(UnknownNameError, match="did you mean 'resnet50'"):
        build_embedder("resnet5o", weights="none")
    with pytest.raises(ArgumentError, match="did you mean 'average'"):
        small(pooling="avg2")
    with pytest.raises(ArgumentError, match="layer_norm"):
        small(norm="layernorm")


@pytest.mark.parametrize("affine_trained", [True, False])
def test_frozen_batch_norm_does_not_move(affine_trained):
    embedder = small().train()
    freeze_batch_norm(embedder, affine_trained=affine_trained)
    before = {name: value.clone() for name, value in embedder.named_buffers()}
    embedder(images()).sum().backward()
    assert all(torch.equal(value, before[name]) for name, value in embedder.named_buffers())
    first = batch_norms(embedder)[0]
    assert (first.weight.grad is not None) == affine_trained
    assert embedder.training
    embedder.train()
    embedder(images())
    assert not torch.equal(first.running_mean, before["backbone.bn1.running_mean"]), "train() wakes it"


def test_freezing_batch_norm_leaves_a_frozen_stage_frozen():
    embedder = small()
    embedder.frozen_part(2).requires_grad_(False)
    freeze_batch_norm(embedder, affine_trained=True)
    assert not embedder.backbone.bn1.weight.requires_grad
    assert embedder.backbone.layer4[0].bn1.weight.requires_grad


def test_momentum_of_batch_norm_can_be_set():
    embedder = small()
    set_batch_norm_momentum(embedder, 0.9)
    assert {norm.momentum for norm in batch_norms(embedder)} == {0.9}
