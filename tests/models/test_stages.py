"""Stages compose to exactly the feature extractor, for every family; cuts, costs and heads."""

import copy

import pytest
import timm
import torch
from torch import nn

from lookalike.errors import ArgumentError
from lookalike.models import BACKBONES, build_embedder
from lookalike.models.backbones import create, describe
from lookalike.models.stages import RULES, drop_head, stages_of

FAMILIES = {  # timm model -> size of the test images
    "tf_efficientnet_lite0": 64,
    "efficientnet_b0": 64,
    "resnet18": 64,
    "resnet50": 64,
    "mobilenetv3_small_100": 64,
    "convnext_atto": 64,
    "regnety_002": 64,
    "densenet121": 64,
    "vgg11_bn": 64,
    "hgnetv2_b0": 64,
    "inception_v3": 96,
    "vit_tiny_patch16_224": 64,
    "deit3_small_patch16_224": 64,
}


def images(size, count=2):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8, generator=generator)


def tiny(name, **settings):
    return build_embedder(name, weights="none", **{"size": 64, "embedding_dim": 4, **settings}).eval()


@pytest.mark.parametrize("name", FAMILIES)
def test_stages_compose_to_the_feature_extractor(name):
    backbone, _ = create(name)
    backbone.eval()
    images = torch.randn(1, 3, FAMILIES[name], FAMILIES[name], generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        composed = nn.Sequential(*(stage for _, stage in stages_of(backbone)))(images)
        assert torch.equal(composed, backbone.forward_features(images))


def test_every_rule_has_a_tested_family():
    with torch.device("meta"):
        tested = {type(timm.create_model(name)).__name__ for name in FAMILIES} | {"GoogLeNet"}
    assert set(RULES) <= tested


def test_stages_of_googlenet_compose_to_what_its_classifier_reads():
    backbone, _ = create("googlenet")
    backbone.eval()
    seen = []
    backbone.avgpool = nn.Identity()
    backbone.avgpool.register_forward_hook(lambda module, inputs, output: seen.append(output))
    images = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        backbone._forward(images)
        composed = nn.Sequential(*(stage for _, stage in stages_of(backbone)))(images)
    assert torch.equal(composed, seen[0])
    assert composed.shape[1] == BACKBONES["googlenet"].channels


@pytest.mark.parametrize("name", BACKBONES)
def test_the_table_tells_the_truth(name):
    entry = BACKBONES[name]
    embedder = build_embedder(name, weights="none", size=96, embedding_dim=4).eval()
    costs = embedder.stage_costs()
    with torch.no_grad():
        maps = embedder.feature_maps(images(96, 1))
    assert maps.shape[1] == entry.channels
    assert sum(cost.parameters for cost in costs) == sum(p.numel() for p in embedder.backbone.parameters())
    assert embedder.default_frozen_stages() in range(1, len(costs))
    if entry.source == "timm":
        facts = timm.get_pretrained_cfg(name)
        own = entry.preprocessing
        assert (own.size, own.mean, own.std) == (facts.input_size[1], facts.mean, facts.std)
        assert entry.license.lower() == facts.license


@pytest.mark.parametrize(
    "name", ["tf_efficientnet_lite0", "resnet18", "bn_inception", "vit_tiny_patch16_224"]
)
def test_any_cut_gives_the_same_embedding(name):
    embedder = tiny(name)
    with torch.no_grad():
        whole = embedder(images(64))
        for cut in range(len(embedder.stages) + 1):
            activations = embedder.frozen_part(cut)(images(64))
            assert torch.equal(embedder.embed_maps(embedder.trainable_stages(cut)(activations)), whole)


def test_freezing_a_stem_freezes_the_backbones_own_parameters():
    embedder = tiny("vit_tiny_patch16_224")
    embedder.frozen_part(2).requires_grad_(False)
    assert not embedder.backbone.pos_embed.requires_grad
    assert not embedder.backbone.blocks[0].attn.qkv.weight.requires_grad
    assert embedder.backbone.blocks[1].attn.qkv.weight.requires_grad


def test_a_copy_has_its_own_stages():
    embedder = tiny("bn_inception")
    twin = copy.deepcopy(embedder)
    with torch.no_grad():
        twin.backbone.conv1_7x7_s2.weight.zero_()
        assert float(twin.frozen_part(1)(images(64)).std(dim=(2, 3)).max()) == 0
        assert float(embedder.frozen_part(1)(images(64)).std(dim=(2, 3)).max()) > 0


def test_the_default_cut_of_an_unlisted_backbone_leaves_a_third_of_the_arithmetic():
    embedder = tiny("regnety_002")
    macs, cut = [cost.macs for cost in embedder.stage_costs()], embedder.default_frozen_stages()
    assert sum(macs[cut:]) <= sum(macs) / 3 < sum(macs[cut - 1 :])


def test_costs_of_resnet18_by_hand():
    costs = tiny("resnet18").stage_costs(64)
    assert [cost.name for cost in costs] == ["conv1", "layer1", "layer2", "layer3", "layer4"]
    assert costs[0].macs == 32 * 32 * 64 * 3 * 7 * 7
    assert costs[1].macs == 4 * (16 * 16 * 64 * 64 * 9)
    assert costs[0].output == costs[1].output == (64, 16, 16)
    assert costs[-1].output == (512, 2, 2)


def test_costs_leave_modes_as_they_were():
    embedder = tiny("resnet18").train()
    embedder.backbone.bn1.eval()
    before = {name: module.training for name, module in embedder.named_modules()}
    state = {name: value.clone() for name, value in embedder.state_dict().items()}
    embedder.stage_costs(64)
    assert before == {name: module.training for name, module in embedder.named_modules()}
    assert all(torch.equal(value, state[name]) for name, value in embedder.state_dict().items())
    assert not any(module._forward_hooks for module in embedder.modules())


def test_heads_are_dropped_and_named():
    backbone, heads = create("mobilenetv3_small_100")
    assert {"classifier", "conv_head", "global_pool"} <= set(heads)
    assert not any(name.startswith("conv_head") for name in backbone.state_dict())
    unknown = nn.Sequential(nn.Linear(2, 2))
    assert drop_head(unknown) == ()
    assert isinstance(unknown[0], nn.Linear)


def test_a_family_without_stages_says_which_modes_work():
    embedder = tiny("ghostnet_050")
    assert embedder.stages is None
    with torch.no_grad():
        assert embedder(images(64)).shape == (2, 4)
    with pytest.raises(ArgumentError, match="mode 'frozen' or 'finetune'"):
        embedder.frozen_part(1)


def test_a_cut_outside_the_network():
    with pytest.raises(ArgumentError, match=r"cut 9 is not in 0\.\.5"):
        tiny("resnet18").trainable_stages(9)


def test_channels_last_backbones_give_maps():
    embedder = tiny("swin_tiny_patch4_window7_224", size=224)
    with torch.no_grad():
        assert embedder.feature_maps(images(224, 1)).shape == (1, 768, 7, 7)


def test_facts_of_an_unlisted_backbone_come_from_timm():
    facts = describe("resnext50_32x4d")
    assert (facts.channels, facts.preprocessing.size, facts.weights) == (2048, 224, "hub")
