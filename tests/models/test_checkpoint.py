"""Saving and loading: the same vectors, the same fingerprint, and readable refusals."""

import json
import random
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from lookalike.errors import FileError
from lookalike.models import Embedder, EmbedderConfig, build_embedder
from lookalike.models.checkpoint import fingerprint, load_model, save_model
from lookalike.models.networks import Architecture
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
    config = EmbedderConfig(
        backbone="tiny",
        architecture=Architecture("tiny"),
        channels=2,
        pooling="average",
        k=1,
        norm="none",
        embedding_dim=None,
        bias=True,
        preprocessing=Preprocessing(),
        weights_origin="somewhere",
        weights_license="some",
    )
    own = fingerprint(Embedder(Tiny(), config))
    assert own == "c54f5cc2ecfa745b0c2db48a90d8749efb599d026c481968d2f5d162c147bfea"
    assert fingerprint(Embedder(Tiny(), replace(config, weights_origin="elsewhere"))) == own
    assert fingerprint(Embedder(Tiny(), replace(config, norm="unit"))) != own


def test_an_interrupted_save_leaves_the_older_model_whole(tmp_path, monkeypatch):
    save_model(tmp_path, small(), class_names=["old"])
    newer = small(seed=1)
    monkeypatch.setattr("lookalike.utils.tensor_file.save_file", lambda *_, **__: 1 / 0)
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


@pytest.mark.parametrize(("number", "advice"), [(99, "update lookalike"), (1, "train the model again")])
def test_a_format_of_another_version_is_refused(tmp_path, number, advice):
    file = tmp_path / "model.safetensors"
    save_file({"a": torch.zeros(1)}, file, metadata={"config": json.dumps({"format": number})})
    with pytest.raises(FileError, match=f"has format {number}, this version reads format 2; {advice}"):
        load_model(tmp_path)


LIES = {
    "an embedding wider than the file": ({"embedding_dim": 10**9}, "projection.bias is"),
    "a backbone of another size": (
        {"architecture": {"name": "resnet50", "arguments": {}}},
        "does not fit backbone",
    ),
    "a name of the hub": ({"architecture": {"name": "hf-hub:a/b", "arguments": {}}}, "not a plain timm name"),
    "a name that does not exist": (
        {"architecture": {"name": "../../etc", "arguments": {}}},
        "unknown backbone",
    ),
    "an argument that names a file": (
        {"architecture": {"name": "resnet18", "arguments": {"checkpoint_path": "/etc/passwd"}}},
        "checkpoint_path",
    ),
    "a huge image": ({"preprocessing": {"size": 10**7, "resize": 10**7}}, "image size of 10000000"),
    "no preprocessing": ({"preprocessing": 3}, "not those of an embedder"),
    "a number for a name": ({"pooling": 7}, "'pooling' is not a text"),
    "a negative width": ({"channels": -1}, "'channels' is -1"),
    "an unknown setting": ({"run_me": "os.system"}, "not those of an embedder"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_configuration_that_lies_is_one_line_and_takes_no_memory(tmp_path, lie):
    changes, said = LIES[lie]
    embedder = small()
    save_model(tmp_path, embedder)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    config["embedder"] |= changes
    save_file(embedder.state_dict(), tmp_path / "model.safetensors", metadata={"config": json.dumps(config)})
    with pytest.raises(FileError, match=said) as caught:
        load_model(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seed", range(30))
def test_a_damaged_file_is_one_line(tmp_path, seed):
    """A few bytes of the header or the weights changed, or the file cut short."""
    save_model(tmp_path, build_embedder("test_resnet", weights="none", size=32, embedding_dim=2))
    file = tmp_path / "model.safetensors"
    content, chance = bytearray(file.read_bytes()), random.Random(seed)
    header = 8 + int.from_bytes(content[:8], "little")
    if seed % 3 == 0:
        del content[chance.randrange(len(content)) :]
    else:
        for _ in range(3):
            place = chance.randrange(header if seed % 3 == 1 else len(content))
            content[place] ^= 1 << chance.randrange(8)
    file.write_bytes(content)
    with pytest.raises(FileError) as caught:
        load_model(tmp_path)
    assert "\n" not in str(caught.value)


def test_weights_of_a_saved_model_start_another(tmp_path):
    source = small(seed=4)
    save_model(tmp_path, source)
    other = small(seed=0)
    again = build_embedder("resnet18", weights=tmp_path / "model.safetensors", embedding_dim=16)
    assert torch.equal(again.backbone.conv1.weight, source.backbone.conv1.weight)
    assert not torch.equal(other.backbone.conv1.weight, source.backbone.conv1.weight)
