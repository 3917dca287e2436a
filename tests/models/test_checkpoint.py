"""Saving and loading: the same vectors, the same fingerprint, and readable refusals."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from lookalike.errors import FileError
from lookalike.models import build_embedder
from lookalike.models.checkpoint import fingerprint, load_model, save_model


def small(**settings):
    return build_embedder("resnet18", weights="none", **{"size": 64, "embedding_dim": 8, **settings}).eval()


def pictures():
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
        assert torch.equal(loaded(pictures()), embedder(pictures()))
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


def test_fingerprint_is_the_same_in_another_process():
    program = (
        "from lookalike.models import build_embedder; from lookalike.models.checkpoint import fingerprint;"
        "print(fingerprint(build_embedder('resnet18', weights='none', size=64, embedding_dim=8)))"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == fingerprint(small())


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
