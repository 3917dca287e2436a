"""The recommended backbones exist, and their facts are timm's."""

import pytest
import timm

from lookalike.models.recommended import RECOMMENDED, recommended


@pytest.fixture(scope="module")
def rows():
    return {row["backbone"]: row for row in recommended()}


def test_every_row_is_complete(rows):
    assert list(rows) == [entry.name for entry in RECOMMENDED]
    for row in rows.values():
        assert row["machine"] in ("cpu", "small gpu", "large gpu", "papers")
        assert row["million parameters"] > 1
        assert row["giga multiply-accumulates"] > 0.02
        assert row["pretraining"] != "not stated"
        assert row["license"] != "not stated"


def test_known_numbers(rows):
    """Of the papers: ResNet-50 has 23.5 million parameters without classifier and 4.1 G multiply-accumulates."""
    assert rows["resnet50"]["million parameters"] == 23.5
    assert rows["resnet50"]["giga multiply-accumulates"] == pytest.approx(4.09, abs=0.05)
    assert rows["vit_small_patch14_dinov2"]["pixels"] == 518
    assert (
        rows["vit_small_patch14_dinov2"]["license"]
        == timm.get_pretrained_cfg("vit_small_patch14_dinov2").license
    )
    assert rows["tf_efficientnet_lite0"]["weights"] == "package"
    assert rows["bn_inception"]["weights"] == "file"


def test_unicom_would_be_listed_once_timm_has_it():
    assert not timm.list_models("*unicom*"), "timm has UNICOM now: add it to RECOMMENDED"
