"""From image files to an index and back: incremental updates, refusals, search."""

import os

import numpy as np
import pytest
from PIL import Image

from lookalike.errors import ArgumentError, DataError, FileError
from lookalike.models import build_embedder
from lookalike.models.checkpoint import save_model
from lookalike.search import ImageIndex
from lookalike.search.image_search import build_index, search_images


def paint(file, seed):
    file.parent.mkdir(parents=True, exist_ok=True)
    blocks = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    Image.fromarray(blocks).resize((32, 32), Image.Resampling.NEAREST).save(file)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    save_model(
        folder, build_embedder("resnet18", weights="none", size=32, embedding_dim=8), class_names=["a"]
    )
    return folder


@pytest.fixture
def photos(tmp_path):
    for number in range(3):
        for name in ("кот", "dog"):
            paint(tmp_path / "photos" / name / f"{number} x.png", seed=number + 10 * (name == "dog"))
    return tmp_path / "photos"


def counts(report):
    return report.added, report.replaced, report.unchanged, report.removed


def test_index_update_search(run, photos, tmp_path):
    out = tmp_path / "photos.index"
    first = build_index(run, photos, out, device="cpu")
    assert counts(first) == (6, 0, 0, 0)
    assert str(first).endswith("photos.index: 6 images (6 added, 0 replaced, 0 unchanged, 0 removed)")
    assert counts(build_index(run, photos, out, device="cpu")) == (0, 0, 6, 0)

    query = photos / "кот" / "1 x.png"
    (hits,) = search_images(out, [query], k=99, device="cpu")
    assert hits.query == str(query)
    assert len(hits.hits) == 6
    best = hits.hits[0]
    assert (best.path, best.label, best.file) == ("кот/1 x.png", "кот", query)
    assert best.similarity == pytest.approx(1, abs=1e-5)
    assert [hit.similarity for hit in hits.hits] == sorted((h.similarity for h in hits.hits), reverse=True)

    paint(query, seed=77)
    os.utime(query, ns=(5, 5))
    (photos / "dog" / "0 x.png").unlink()
    paint(photos / "dog" / "new.png", seed=5)
    assert counts(build_index(run, photos, out, device="cpu")) == (1, 1, 4, 1)
    (again,) = search_images(out, [query], k=1, device="cpu")
    assert again.hits[0].path == "кот/1 x.png"
    assert again.hits[0].similarity == pytest.approx(1, abs=1e-5)


def test_an_index_stands_alone(run, photos, tmp_path):
    """The run may go; the index has its model."""
    copy = tmp_path / "run"
    copy.mkdir()
    for file in run.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    build_index(copy, photos, tmp_path / "i", device="cpu")
    for file in copy.iterdir():
        file.unlink()
    queries = [photos / "dog" / "0 x.png", photos / "кот" / "2 x.png"]
    found = search_images(tmp_path / "i", queries, k=1, device="cpu")
    assert [hits.hits[0].file for hits in found] == queries


def test_another_model_or_another_folder_is_refused(run, photos, tmp_path):
    out = tmp_path / "i"
    build_index(run, photos, out, device="cpu")
    other = tmp_path / "other"
    save_model(other, build_embedder("resnet18", weights="none", size=32, embedding_dim=8, seed=1))
    with pytest.raises(ArgumentError, match="was built by model"):
        build_index(other, photos, out, device="cpu")
    paint(tmp_path / "elsewhere" / "a" / "1.png", seed=1)
    paint(tmp_path / "elsewhere" / "b" / "1.png", seed=2)
    with pytest.raises(ArgumentError, match="holds images of"):
        build_index(run, tmp_path / "elsewhere", out, device="cpu")
    save_model(out / "model", build_embedder("resnet18", weights="none", size=32, embedding_dim=8, seed=1))
    with pytest.raises(ArgumentError, match="query vectors are of model"):
        search_images(out, [photos / "dog" / "0 x.png"], device="cpu")
    assert len(ImageIndex.load(out)) == 6


def test_what_cannot_be_asked(run, photos, tmp_path):
    with pytest.raises(FileError, match="no index in"):
        search_images(tmp_path / "none", [photos / "dog" / "0 x.png"])
    build_index(run, photos, tmp_path / "i", device="cpu")
    with pytest.raises(ArgumentError, match="no image"):
        search_images(tmp_path / "i", [])
    (tmp_path / "text.jpg").write_text("no image")
    with pytest.raises((DataError, FileError), match=r"text\.jpg"):
        search_images(tmp_path / "i", [tmp_path / "text.jpg"], device="cpu")
    with pytest.raises((DataError, FileError), match=r"absent\.jpg"):
        search_images(tmp_path / "i", [tmp_path / "absent.jpg"], device="cpu")
