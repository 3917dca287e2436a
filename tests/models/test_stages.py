"""Stages read from a trace: names, costs by hand, limits, and what a network that is no chain gets told."""

import pytest
import torch
from torch import nn

from lookalike.errors import ArgumentError
from lookalike.models import FROZEN_STAGES, build_embedder
from lookalike.models.backbones import describe
from lookalike.models.embedder import Embedder
from lookalike.models.networks import create
from lookalike.models.stages import find_layout, stage_costs

from .families import FAMILIES, build_member, images


def tiny(name, **settings):
    return build_embedder(name, weights="none", **{"size": 64, "embedding_dim": 4, **settings}).eval()


@pytest.mark.parametrize(
    "name", sorted(FROZEN_STAGES.keys() - {"tf_efficientnet_lite1", "tf_efficientnet_lite2"})
)
def test_the_measured_number_of_frozen_stages_fits_the_network(name):
    facts = describe(name)
    with torch.device("meta"):
        backbone = create(facts.architecture, 96)
    costs = stage_costs(backbone, find_layout(backbone, 96), 96)
    frozen = FROZEN_STAGES[name]
    assert frozen in range(1, len(costs))
    assert sum(cost.macs for cost in costs[frozen:]) < 0.6 * sum(cost.macs for cost in costs)
    assert facts.channels in costs[-1].output


def test_costs_of_resnet18_by_hand():
    costs = tiny("resnet18").stage_costs(64)
    assert [cost.name for cost in costs] == ["conv1", "layer1", "layer2", "layer3", "layer4"]
    assert costs[0].macs == 32 * 32 * 64 * 3 * 7 * 7
    assert costs[1].macs == 4 * (16 * 16 * 64 * 64 * 9)
    assert costs[0].output == costs[1].output == (64, 16, 16)
    assert costs[-1].output == (512, 2, 2)


def test_costs_leave_the_network_as_it_was():
    embedder = tiny("resnet18").train()
    embedder.backbone.bn1.eval()
    before = {name: module.training for name, module in embedder.named_modules()}
    state = {name: value.clone() for name, value in embedder.state_dict().items()}
    embedder.stage_costs(64)
    assert before == {name: module.training for name, module in embedder.named_modules()}
    assert all(torch.equal(value, state[name]) for name, value in embedder.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in embedder.modules())


def test_without_a_measurement_a_third_of_the_arithmetic_trains():
    embedder = tiny("regnety_002")
    macs, frozen = [cost.macs for cost in embedder.stage_costs()], embedder.default_frozen_stages()
    assert sum(macs[frozen:]) <= sum(macs) / 3 < sum(macs[frozen - 1 :])


def test_freezing_the_stem_freezes_the_transformers_own_parameters():
    embedder = build_member(FAMILIES["ViT, patch 16"])
    embedder.frozen_part(2).requires_grad_(False)
    assert not embedder.backbone.pos_embed.requires_grad
    assert not embedder.backbone.blocks[0].attn.qkv.weight.requires_grad
    assert embedder.backbone.blocks[1].attn.qkv.weight.requires_grad


def test_a_number_of_stages_outside_the_network():
    with pytest.raises(ArgumentError, match=r"frozen_stages is 9, but backbone '\w+' has 5 stages"):
        tiny("resnet18").trainable_stages(9)


class Added(nn.Module):
    """A network whose last step is no module, so that no module returned its result."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 4, 1)

    def forward(self, pixels):
        return self.first(pixels) + self.second(pixels)


def test_a_network_that_is_no_chain_says_which_modes_work():
    embedder = Embedder(Added(), build_member(FAMILIES["ResNet"], channels=4).config).eval()
    with torch.no_grad():
        assert embedder(images(75)).shape == (2, 8)
    with pytest.raises(ArgumentError, match=r"train\.mode=frozen or train\.mode=finetune"):
        embedder.frozen_part(1)


@pytest.mark.parametrize("family", ["ViT with rotary positions", "DINOv3"])
def test_stages_that_were_found_in_inference_mode_can_be_trained(family):
    embedder = build_member(FAMILIES[family])
    with torch.inference_mode():
        activations = embedder.frozen_part(1)(images(FAMILIES[family].size))
    embedder.trainable_stages(1)(activations.clone()).sum().backward()
    assert any(parameter.grad is not None for parameter in embedder.backbone.parameters())
