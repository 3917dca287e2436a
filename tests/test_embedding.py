"""`embed` runs a copy of the network on the device that is asked for, wherever the network itself is."""

import pytest
import torch

from lookalike import embedding
from lookalike.errors import ArgumentError, NotFiniteError
from lookalike.models import build_embedder
from toys import colored_squares


@pytest.mark.parametrize(("asked", "runs_on"), [("meta", "meta"), ("cpu", "cpu"), (None, "cpu")])
def test_images_and_network_meet_on_one_device(asked, runs_on, tmp_path, monkeypatch):
    met = []

    def map_images(network, dataset, *, device, **_):
        met.append((next(network.parameters()).device.type, str(device)))
        return iter(())

    monkeypatch.setattr(embedding, "map_images", map_images)
    network = build_embedder("test_resnet", weights="none", size=32, embedding_dim=4)
    embedding.embed(network, colored_squares(tmp_path), device=asked)
    assert met == [(runs_on, runs_on)]
    assert next(network.parameters()).device.type == "cpu"


@pytest.mark.parametrize(
    ("wrong", "words"), [({"batch_size": 0}, "batch_size is 0"), ({"workers": -1}, "workers is -1")]
)
def test_numbers_that_embed_nothing_are_refused(wrong, words, tmp_path):
    network = build_embedder("test_resnet", weights="none", size=32, embedding_dim=4)
    with pytest.raises(ArgumentError, match=words):
        embedding.embed(network, colored_squares(tmp_path), **wrong)


def test_another_network_is_refused_with_what_to_give(squares):
    with pytest.raises(ArgumentError, match=r"embed takes an Embedder, not Linear: lookalike\.load_model"):
        embedding.embed(torch.nn.Linear(2, 2), squares)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet"])
def test_embeddings_that_are_not_finite_name_an_image_and_write_nothing(suffix, squares, tmp_path):
    network = build_embedder("test_resnet", weights="none", size=32, embedding_dim=4)
    with torch.no_grad():
        next(network.parameters()).fill_(float("nan"))
    with pytest.raises(NotFiniteError, match=f"not finite, first that of '{squares.paths[0]}'"):
        embedding.embed_to_file(network, squares, tmp_path / f"vectors{suffix}")
    assert list(tmp_path.glob("*vectors*")) == []
