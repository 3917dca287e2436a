"""Names of backbones: facts come from timm, folders and hub names open, sizes that do not fit are refused."""

import json

import pytest
import timm
import torch
from safetensors.torch import save_file

from lookalike.errors import ArgumentError, FileError, UnknownNameError
from lookalike.models import build_embedder
from lookalike.models.backbones import describe
from lookalike.models.checkpoint import load_model, save_model
from lookalike.models.networks import Architecture, create

from .families import images


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("resnet50", "resnet50.a1_in1k"),
        ("convnext_tiny", "convnext_tiny.in12k_ft_in1k"),
        ("resnet18", "resnet18.a1_in1k"),
    ],
)
def test_a_name_with_its_default_tag_is_the_same_backbone(short, long):
    first, second = describe(short), describe(long)
    assert (first.preprocessing, first.license, first.patch, first.pretraining) == (
        second.preprocessing,
        second.license,
        second.patch,
        second.pretraining,
    )
    assert first.architecture == second.architecture


@pytest.mark.parametrize(
    "name", ["resnet50", "inception_v3", "vit_small_patch16_224", "swin_tiny_patch4_window7_224"]
)
def test_facts_are_timms(name):
    facts, own = describe(name), timm.get_pretrained_cfg(name)
    preprocessing = facts.preprocessing
    assert (preprocessing.size, preprocessing.mean, preprocessing.std) == (
        own.input_size[1],
        own.mean,
        own.std,
    )
    assert preprocessing.resize == int(own.input_size[1] / own.crop_pct)
    assert (facts.license, facts.pretraining) == (own.license, own.tag)


def test_unknown_names():
    with pytest.raises(UnknownNameError, match="did you mean 'resnet50'"):
        describe("resnet5o")
    with pytest.raises(FileError, match="has no readable timm model"):
        describe("local-dir:/nowhere")


@pytest.fixture
def folder(tmp_path):
    """A plain timm model on disk, with an input size of its own."""
    torch.manual_seed(0)
    model = timm.create_model("test_resnet", num_classes=5)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    facts = {"architecture": "test_resnet", "num_classes": 5, "pretrained_cfg": dict(model.pretrained_cfg)}
    facts["pretrained_cfg"] |= {
        "input_size": [3, 96, 96],
        "num_classes": 5,
        "license": "mit",
        "crop_pct": 1.0,
    }
    (tmp_path / "config.json").write_text(json.dumps(facts), encoding="utf-8")
    return tmp_path, model


def test_a_local_folder_opens_wherever_a_backbone_is_named(folder, tmp_path):
    where, model = folder
    embedder = build_embedder(f"local-dir:{where}", embedding_dim=4).eval()
    assert torch.equal(embedder.backbone.conv1[0].weight, model.conv1[0].weight)
    assert (embedder.preprocessing.size, embedder.preprocessing.resize) == (96, 96)
    assert embedder.config.weights_license == "mit"
    save_model(tmp_path / "run", embedder)
    (where / "config.json").unlink()
    loaded, _ = load_model(tmp_path / "run")  # without the folder that it came from
    with torch.no_grad():
        assert torch.equal(loaded(images(96)), embedder(images(96)))


def test_a_folder_with_a_pickle_runs_no_code(folder, tmp_path):
    class Attack:
        def __reduce__(self):
            return (open, (str(tmp_path / "was_run"), "w"))

    where, _ = folder
    (where / "model.safetensors").unlink()
    torch.save({"x": Attack()}, where / "pytorch_model.bin")
    with pytest.raises(FileError, match="could not be read"):
        build_embedder(f"local-dir:{where}")
    assert not (tmp_path / "was_run").exists()


def test_a_size_that_is_no_multiple_of_the_patch_names_two_that_are():
    with pytest.raises(ArgumentError, match="multiple of 14; set image_size to 56 or 70"):
        build_embedder("vit_small_patch14_dinov2", weights="none", size=64)
    with pytest.raises(ArgumentError, match=r"set image_size to 14$"):
        build_embedder("vit_small_patch14_dinov2", weights="none", size=9)


def test_a_network_of_one_size_names_it():
    with pytest.raises(ArgumentError, match=r"does not take images of 100 pixels; .* such as .*224"):
        build_embedder("mixer_s16_224", weights="none", size=100)


def test_architectures_of_strangers():
    with pytest.raises(ArgumentError, match="not a plain timm name"):
        create(Architecture("hf-hub:somebody/something"))
    with pytest.raises(ArgumentError, match="may not have"):
        create(Architecture("resnet18", {"checkpoint_path": "/tmp/x"}))
