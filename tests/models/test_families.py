"""Laws that a member of every family obeys: it embeds, splits into stages exactly, trains in every mode, and fuses."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from lookalike.models.checkpoint import load_model, save_model
from lookalike.models.fuse import fuse_for_inference
from lookalike.models.trace import parameter_type

from .families import FAMILIES, build_member, images

UNFOLDED = {"DenseNet"}
"""Families whose batch norms come before their convolutions, so that most cannot be folded."""


@pytest.fixture(scope="module", params=FAMILIES)
def member(request):
    """A family's name, its embedder, and images of its size; tests leave all of them as they were."""
    found = FAMILIES[request.param]
    return request.param, build_member(found), images(found.size)


def test_embeds(member):
    _, embedder, pixels = member
    with torch.no_grad():
        embeddings, maps = embedder(pixels), embedder.feature_maps(pixels)
    assert embeddings.shape == (2, 8)
    assert torch.isfinite(embeddings).all()
    assert maps.shape[:2] == (2, embedder.channels)
    assert not torch.equal(embeddings[0], embeddings[1])


def test_every_split_into_frozen_and_trainable_stages_gives_the_same_embedding(member):
    _, embedder, pixels = member
    count = len(embedder.stages)
    with torch.no_grad():
        whole = embedder(pixels)
        for frozen in sorted({0, 1, count // 2, count - 1, count}):
            activations = embedder.frozen_part(frozen)(pixels)
            assert torch.equal(embedder.embed_maps(embedder.trainable_stages(frozen)(activations)), whole)


def test_stages_share_every_parameter_of_the_backbone_once(member):
    _, embedder, _ = member
    stages = [id(parameter) for stage in embedder.stages for parameter in stage.parameters()]
    assert sorted(stages) == sorted(id(parameter) for parameter in embedder.backbone.parameters())


def test_costs_and_default_of_the_stages(member):
    _, embedder, _ = member
    costs = embedder.stage_costs()
    assert sum(cost.parameters for cost in costs) == sum(p.numel() for p in embedder.backbone.parameters())
    assert all(cost.macs > 0 for cost in costs)
    assert (
        embedder.default_frozen_stages() in range(1, len(costs) + 1) or embedder.config.architecture.arguments
    )


def test_trains_whole_and_in_part(member):
    _, embedder, pixels = member
    for frozen in (0, 1):
        trained = copy.deepcopy(embedder).train()
        trained.frozen_part(frozen).requires_grad_(False)
        activations = trained.frozen_part(frozen)(pixels).detach() if frozen else None
        if activations is None:
            trained(pixels).square().sum().backward()
        else:
            trained.embed_maps(trained.trainable_stages(frozen)(activations)).square().sum().backward()
        for name, parameter in trained.named_parameters():
            assert (parameter.grad is not None) == parameter.requires_grad, name


def test_fused_equals_unfused(member):
    family, embedder, pixels = member
    before = {name: value.clone() for name, value in embedder.state_dict().items()}
    fast = fuse_for_inference(embedder)
    with torch.no_grad():
        whole = embedder(pixels)
        torch.testing.assert_close(fast(pixels), whole, atol=1e-4, rtol=1e-3)
        half = len(embedder.stages) // 2
        activations = fast.frozen_part(half)(pixels)
        torch.testing.assert_close(activations, embedder.frozen_part(half)(pixels), atol=1e-4, rtol=1e-3)
        torch.testing.assert_close(
            fast.embed_maps(fast.trainable_stages(half)(activations)), whole, atol=1e-4, rtol=1e-3
        )
    left = [module for module in fast.modules() if isinstance(module, _BatchNorm)]
    assert not left or family in UNFOLDED
    assert all(torch.equal(value, before[name]) for name, value in embedder.state_dict().items())


def test_bfloat16_embeds_nearly_the_same_where_the_device_computes_in_it(member, monkeypatch):
    _, embedder, pixels = member
    reduced = copy.deepcopy(embedder)
    reduced._layout = None  # the stages are found on the copy in bfloat16, too
    reduced.set_precision("bfloat16")
    half = len(embedder.stages) // 2
    with torch.no_grad():
        whole = embedder(pixels)
        for native in (False, True):
            monkeypatch.setattr("lookalike.models.fuse.computes_bfloat16", lambda _, native=native: native)
            fast = fuse_for_inference(reduced)
            assert parameter_type(fast.backbone) == (torch.bfloat16 if native else torch.float32)
            assert parameter_type(fast.projection) == torch.float32
            activations = fast.frozen_part(half)(pixels)
            in_parts = fast.embed_maps(
                fast.trainable_stages(half)(activations.to(parameter_type(fast.backbone)))
            )
            for found in (fast(pixels), in_parts):
                assert found.dtype == activations.dtype == torch.float32
                assert functional.cosine_similarity(found, whole).min() > (0.99 if native else 0.9999)


def test_batch_norm_is_folded_with_two_views_too(member):
    family, embedder, pixels = member
    two = copy.deepcopy(embedder)
    two.set_views(2)
    fast = fuse_for_inference(two)
    with torch.no_grad():
        torch.testing.assert_close(fast(pixels), two(pixels), atol=1e-4, rtol=1e-3)
    assert family in UNFOLDED or not any(isinstance(module, _BatchNorm) for module in fast.modules())


def test_saves_and_loads(member, tmp_path):
    _, embedder, pixels = member
    save_model(tmp_path, embedder)
    loaded, _ = load_model(tmp_path)
    with torch.no_grad():
        assert torch.equal(loaded(pixels), embedder(pixels))


def test_a_copy_has_its_own_stages():
    embedder = build_member(FAMILIES["BN-Inception"])
    twin = copy.deepcopy(embedder)
    with torch.no_grad():
        twin.backbone.conv1[0].convolution.weight.zero_()
        assert float(twin.frozen_part(1)(images(64)).std(dim=(2, 3)).max()) == 0
        assert float(embedder.frozen_part(1)(images(64)).std(dim=(2, 3)).max()) > 0


def test_a_batch_norm_whose_convolution_is_read_twice_by_modules_is_still_folded_right():
    """A convolution that is called twice cannot be folded, whichever norms follow it."""

    class Twice(nn.Module):
        num_features = 3

        def __init__(self):
            super().__init__()
            self.convolution = nn.Conv2d(3, 3, 1)
            self.first, self.second = nn.BatchNorm2d(3), nn.BatchNorm2d(3)

        def forward(self, pixels):
            return self.first(self.convolution(pixels)) + self.second(self.convolution(pixels))

    from lookalike.models.embedder import Embedder

    config = build_member(FAMILIES["ResNet"], channels=3).config
    network = Twice()
    for norm in (network.first, network.second):
        nn.init.normal_(norm.running_mean)
    embedder = Embedder(network, config).eval()
    with torch.no_grad():
        fast = fuse_for_inference(embedder)
        torch.testing.assert_close(fast(images(16)), embedder(images(16)))
    assert isinstance(fast.backbone.first, nn.BatchNorm2d)


@pytest.mark.parametrize(
    "family", [name for name in FAMILIES if "ViT" in name] + ["BEiT", "DINOv3", "hybrid"]
)
def test_transformers_export_for_any_batch_size(family):
    """By torch.export, which `export --onnx` and `--pt2` begin with."""
    member = FAMILIES[family]
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(
        build_member(member), (images(member.size),), dynamic_shapes=({0: batch},), strict=False
    )
    assert program.module()(images(member.size, 3)).shape == (3, 8)
