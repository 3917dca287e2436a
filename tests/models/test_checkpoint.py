"""Saving and loading: the same vectors, the same fingerprint, and readable refusals."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from lookalike.errors import FileError
from lookalike.models import Embedder, EmbedderConfig, build_embedder
from lookalike.models.checkpoint import fingerprint, load_model, save_model
from lookalike.preprocessing import Preprocessing


def small(**settings):
    return build_embedder("resnet18", weights="none", **{"size": 64, "embedding_dim": 8, **settings}).eval()


def images():
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize(
    "settings", [{"pooling": "k_max", "k": 2, "norm": "layer_norm"}, {"embedding_dim": None}]
)
def test_a_loaded_model_gives_the_same_vectors(tmp_path, settings):
    embedder = small(**settings)
    save_model(tmp_path / "m", embedder, class_names=["a", "ü"], extra={"epoch": 3})
    loaded, config = load_model(tmp_path / "m")
    assert not loaded.training
    assert loaded.config == embedder.config
    assert (config["class_names"], config["extra"]) == (["a", "ü"], {"epoch": 3})
    assert config["embedder"]["weights_license"] == "none (random weights)"
    with torch.no_grad():
        assert torch.equal(loaded(images()), embedder(images()))
    assert fingerprint(loaded) == fingerprint(embedder) == config["fingerprint"]
    assert json.loads((tmp_path / "m" / "config.json").read_text(encoding="utf-8")) == config
    assert sorted(file.name for file in (tmp_path / "m").iterdir()) == ["config.json", "model.safetensors"]


def test_fingerprint_tells_models_apart_and_nothing_else():
    embedder = small()
    own = fingerprint(embedder)
    assert fingerprint(small()) == own
    assert fingerprint(small().to(memory_format=torch.channels_last)) == own
    assert fingerprint(small(seed=1)) != own
    assert fingerprint(small(pooling="average_plus_maximum", embedding_dim=8)) != own
    assert fingerprint(small(size=32)) != own, "preprocessing decides vectors too"
    with torch.no_grad():
        embedder.backbone.bn1.num_batches_tracked += 1
        assert fingerprint(embedder) == own
        embedder.backbone.layer3[0].bn1.running_var[0] += 1e-6
    assert fingerprint(embedder) != own


class Tiny(nn.Module):
    """A backbone that depends on no library: one convolution with weights 0, 0.1, 0.2, ..."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 2, 1)
        for parameter in self.parameters():
            parameter.data = torch.arange(parameter.numel()).reshape(parameter.shape) / 10

    def forward_features(self, images):
        return self.convolution(images)


def test_fingerprint_is_the_same_tomorrow():
    """An index on disk must know its model again, in any process and after any update of this package."""
    config = EmbedderConfig("tiny", "average", 1, "none", None, True, Preprocessing(), "somewhere", "some")
    own = fingerprint(Embedder(Tiny(), config, channels=2))
    assert own == "a0f030e7aba8fe94642e7cab24f60845be1ff1ce5b43fb6e66e6007c6636be84"
    assert fingerprint(Embedder(Tiny(), replace(config, weights_origin="elsewhere"), channels=2)) == own
    assert fingerprint(Embedder(Tiny(), replace(config, norm="unit"), channels=2)) != own


def test_an_interrupted_save_leaves_the_older_model_whole(tmp_path, monkeypatch):
    save_model(tmp_path, small(), class_names=["old"])
    newer = small(seed=1)
    monkeypatch.setattr("lookalike.models.checkpoint.save_file", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_model(tmp_path, newer, class_names=["new"])
    loaded, config = load_model(tmp_path)
    assert config["class_names"] == ["old"]
    assert fingerprint(loaded) == fingerprint(small())
    assert not [file for file in tmp_path.iterdir() if file.name.endswith(".tmp")]


def test_the_global_random_state_stays(tmp_path):
    save_model(tmp_path, small())
    before = torch.get_rng_state()
    load_model(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


def test_readable_refusals(tmp_path):
    with pytest.raises(FileError, match="no model in"):
        load_model(tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"garbage")
    with pytest.raises(FileError, match="damaged"):
        load_model(tmp_path)
    save_file({"a": torch.zeros(1)}, file)
    with pytest.raises(FileError, match="not saved by this package"):
        load_model(tmp_path)
    save_file({"a": torch.zeros(1)}, file, metadata={"config": '{"format": 99}'})
    with pytest.raises(FileError, match="format 99"):
        load_model(tmp_path)


def test_weights_of_a_saved_model_start_another(tmp_path):
    source = small(seed=4)
    save_model(tmp_path, source)
    other = small(seed=0)
    again = build_embedder("resnet18", weights=tmp_path / "model.safetensors", embedding_dim=16)
    assert torch.equal(again.backbone.conv1.weight, source.backbone.conv1.weight)
    assert not torch.equal(other.backbone.conv1.weight, source.backbone.conv1.weight)
