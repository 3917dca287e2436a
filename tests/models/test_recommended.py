"""The recommended backbones exist, and their facts are timm's."""

import pytest
import timm
import torch

from lookalike.models.backbones import describe
from lookalike.models.networks import create
from lookalike.models.recommended import RECOMMENDED, recommended
from lookalike.models.same_padding import pad_inputs
from lookalike.models.stages import count_macs
from lookalike.models.trace import features

COUNTED = (
    "tf_efficientnet_lite0",
    "resnet18",
    "resnet50",
    "googlenet",
    "bn_inception",
    "vit_small_patch16_dinov3",
)


@pytest.fixture(scope="module")
def rows():
    return {row["backbone"]: row for row in recommended()}


def test_every_row_is_complete(rows):
    assert list(rows) == [entry.name for entry in RECOMMENDED]
    assert {entry.machine for entry in RECOMMENDED} == {"cpu", "small gpu", "large gpu", "papers"}
    for row in rows.values():
        assert all(value not in (None, "", 0, "not stated") for value in row.values()), row


def test_facts_are_timms(rows):
    own = timm.get_pretrained_cfg("vit_small_patch14_dinov2")
    row = rows["vit_small_patch14_dinov2"]
    assert (row["pixels"], row["license"], row["pretraining"]) == (518, own.license, own.tag)
    assert rows["tf_efficientnet_lite0"]["weights"] == "package"
    assert rows["bn_inception"]["weights"] == "file"


@pytest.mark.parametrize("name", COUNTED)
def test_counts(rows, name):
    facts = describe(name)
    size = facts.preprocessing.size
    with torch.device("meta"):
        network, pixels = create(facts.architecture).eval(), torch.empty(1, 3, size, size)
    pad_inputs(network)  # padded kernels multiply zeros too
    assert rows[name]["parameters (M)"] == round(sum(p.numel() for p in network.parameters()) / 1e6, 1)
    assert rows[name]["MACs (G)"] == pytest.approx(
        count_macs(lambda: features(network, pixels)) / 1e9, abs=0.01
    )
