"""The index as it is used from Python: what it takes, and the errors for everything else."""

import numpy as np
import pytest
import torch

import lookalike
from lookalike import ImageIndex
from lookalike.errors import ArgumentError, FileError
from lookalike.search import image_search
from lookalike.search.build import build_index
from lookalike.search.image_search import SearchOptions, search_images
from lookalike.search.units import to_units

from .test_index import DIM, FINGERPRINT, fill, unit

VECTORS = unit(3)


@pytest.fixture
def index(tmp_path):
    """Three images, opened for reading."""
    with ImageIndex.create(tmp_path / "index", fingerprint=FINGERPRINT, dim=DIM) as made:
        fill(made, VECTORS)
    with ImageIndex.open(tmp_path / "index") as opened:
        yield opened


@pytest.mark.parametrize(
    "queries",
    [
        VECTORS.tolist(),
        VECTORS.astype(np.float64),
        np.asfortranarray(VECTORS),
        list(VECTORS),
        torch.from_numpy(VECTORS),
    ],
    ids=["lists", "float64", "by columns", "list of arrays", "tensor"],
)
def test_vectors_come_as_any_array_of_numbers(index, queries):
    found = index.search(queries, 1, fingerprint=FINGERPRINT)
    assert [line[0].id for line in found] == [1, 2, 3]


@pytest.mark.parametrize(
    "queries",
    [
        "a.jpg",
        [["a"] * DIM],
        [[1.0, 2.0], [3.0]],
        torch.ones(1, DIM, requires_grad=True),
        torch.ones(1, DIM, dtype=torch.bfloat16),
        np.full((1, DIM), object()),
        VECTORS[0],
        VECTORS[:, :3],
        np.zeros((1, DIM)),
        np.full((1, DIM), np.nan),
        [],
        None,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_vector_is_refused(index, queries):
    with pytest.raises(ArgumentError, match="vector"):
        to_units(queries, index.facts, FINGERPRINT)


def test_as_many_images_are_left_out_as_there_are_queries(index):
    with pytest.raises(ArgumentError, match="1 images to leave out, and 2 queries"):
        index.search(VECTORS[:2], fingerprint=FINGERPRINT, leave_out=[1])


@pytest.mark.parametrize(
    "ids", [[1, 2], (1, 2), np.array([1, 2]), range(1, 3)], ids=lambda v: type(v).__name__
)
def test_images_are_named_by_any_whole_numbers(index, ids):
    assert sorted(index.files(ids)) == [1, 2]
    assert np.allclose(index.vectors(ids), VECTORS[:2])


CHANGES = {
    "add": lambda index: index.add([], [], VECTORS[:0], fingerprint=FINGERPRINT, root=1),
    "remove_unused": lambda index: index.remove_unused(),
    "set_facts": lambda index: index.set_facts(threshold={"similarity": 0.5}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_index_opened_for_reading_is_not_changed(index, change):
    before = (index.folder / "index.json").read_bytes()
    with pytest.raises(ArgumentError, match="writable=True"):
        change(index)
    assert (index.folder / "index.json").read_bytes() == before


USES = {
    "search": lambda index: index.search(VECTORS, fingerprint=FINGERPRINT),
    "len": len,
    "files": lambda index: index.files([1]),
    "refresh": lambda index: index.refresh(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_closed_index_says_so(index, use):
    index.close()
    index.close()
    with pytest.raises(FileError, match="was closed"):
        use(index)


def test_what_is_printed_fits_on_a_line(index):
    (match,) = index.search(VECTORS[:1], 1, fingerprint=FINGERPRINT)[0]
    embeddings = lookalike.Embeddings(VECTORS, np.zeros(3, np.int64), ("a", "b", "c"), ("x",))
    assert repr(index) == f"<ImageIndex '{index.folder}': 8 dimensions, engine 'exact'>"
    assert repr(match) == "<Match 1: 1.000, '0.png', label 'even'>"
    assert repr(embeddings) == "<Embeddings: 3 x 8, 1 classes>"


@pytest.mark.parametrize(
    "images", ["photos", ["a.jpg"], np.zeros((2, 8, 8, 3)), None], ids=lambda v: type(v).__name__
)
def test_embed_takes_a_table(images):
    with pytest.raises(ArgumentError, match=r"lookalike\.read"):
        lookalike.embed(torch.nn.Identity(), images)


def test_one_file_may_be_searched_without_a_list(model, photos, tmp_path):
    file = photos / "dog" / "1 x.png"
    build_index(model, photos, tmp_path / "index", device="cpu")
    for one in (file, str(file)):
        (found,) = search_images(tmp_path / "index", one, SearchOptions(k=1), device="cpu")
        assert found.hits[0].file == file


def test_many_query_images_are_read_in_batches(model, photos, tmp_path, monkeypatch):
    build_index(model, photos, tmp_path / "index", device="cpu")
    files = [*sorted(photos.rglob("*.png")), photos / "absent.png"]
    whole = search_images(tmp_path / "index", files, device="cpu")
    monkeypatch.setattr(image_search, "BATCH", 2)
    assert search_images(tmp_path / "index", files, device="cpu") == whole
