"""onnxruntime in place of PyTorch: the same index, the same hits."""

import sys

import numpy as np
import pytest
from benchmarks.runtimes import measure

from lookalike.cli import run
from lookalike.errors import MissingExtraError
from lookalike.export.runtime import load_onnx_network
from lookalike.models import build_embedder
from lookalike.models.checkpoint import save_model
from lookalike.search.build import build_index
from lookalike.search.encoder import ImageEncoder
from lookalike.search.image_search import SearchOptions, search_images
from toys import photo_folders

ONNX_PARTS = ("onnx", "onnxscript", "onnxruntime")


@pytest.fixture(scope="module")
def embedder():
    return build_embedder("test_resnet", weights="none", embedding_dim=8, size=32).eval()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return photo_folders(tmp_path_factory.mktemp("photos") / "photos", classes=4, each=3)


@pytest.fixture
def onnx_installed():
    for package in ONNX_PARTS:
        pytest.importorskip(package)


@pytest.mark.usefixtures("own_cache", "onnx_installed")
def test_an_index_and_its_hits_are_those_of_pytorch(embedder, photos, tmp_path):
    save_model(tmp_path / "model", embedder, class_names=("a", "b"))
    query = photos / "0" / "0.png"
    found = {}
    for device in ("cpu", "onnx"):
        build_index(tmp_path / "model", photos, tmp_path / device, device=device)
        for asked in ("cpu", "onnx"):
            (hits,) = search_images(tmp_path / device, [query], SearchOptions(k=12), device=asked)
            found[device, asked] = hits.hits
    first = found["cpu", "cpu"]
    assert len(first) == 12
    for hits in found.values():
        assert [hit.path for hit in hits] == [hit.path for hit in first]
        np.testing.assert_allclose(
            [hit.similarity for hit in hits], [hit.similarity for hit in first], atol=1e-5
        )


@pytest.mark.usefixtures("onnx_installed")
def test_the_export_is_made_once_per_model(embedder, own_cache):
    load_onnx_network(embedder)
    (file,) = (own_cache / "onnx").iterdir()
    made = file.stat().st_mtime_ns
    encoder = ImageEncoder.of(embedder, "onnx")
    assert file.stat().st_mtime_ns == made
    assert encoder.encode([]).shape == (0, 8)
    embedder.set_views(2)  # another computation: another file
    load_onnx_network(embedder)
    embedder.set_views(1)
    assert len(list((own_cache / "onnx").iterdir())) == 2


def test_without_onnxruntime_the_message_is_the_command_that_installs_it(embedder, own_cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'lookalike\[onnx\]'"):
        ImageEncoder.of(embedder, "onnx")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--runtime", "onxx"], "runtime is 'onxx'; did you mean 'onnx'"),
        (["--runtime", "onnx", "--device", "cuda"], "--runtime onnx runs on the CPU; drop --device cuda"),
    ],
)
@pytest.mark.parametrize("verb", ["index", "search", "serve"])
def test_impossible_runtimes_are_refused(verb, options, said, tmp_path, capsys):
    arguments = {"index": ["x", "y", "--out", str(tmp_path)], "search": ["x"], "serve": ["x"]}[verb]
    assert run([verb, *arguments, *options]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("own_cache", "onnx_installed")
def test_the_benchmark_compares_equal_embeddings():
    rows = measure("test_resnet", weights="none", size=32, rounds=1)
    assert [row["batch"] for row in rows] == [1, 8, 32]
    assert all(row["difference"] < 1e-5 for row in rows)
