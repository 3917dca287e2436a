"""The index: what it keeps, what it refuses, and that a folder is never half an index."""

import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import ArgumentError, FileError, UnknownNameError
from lookalike.search import ENGINES, ImageIndex, IndexedImage

MODEL = "a" * 64
WORDS = ("фото/猫 1.jpg", "b/quote'\".png", "c", "d", "e")


def images(*paths):
    return [IndexedImage(path, label=path[0]) for path in paths]


def vectors(count, seed=0, width=4):
    return np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)


def filled(engine="exact"):
    index = ImageIndex(MODEL, 4, engine=engine, root="/photos")
    index.add(images(*WORDS), vectors(5), fingerprint=MODEL)
    return index


def test_an_image_finds_itself_first_at_any_length_of_vector():
    found = filled().search(vectors(5) * 7, 2, fingerprint=MODEL)
    assert [line[0].path for line in found.images] == list(WORDS)
    np.testing.assert_allclose(found.similarities[:, 0], 1, atol=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_more_hits_asked_than_there_are_images(engine):
    found = filled(engine).search(vectors(2), 99, fingerprint=MODEL)
    assert found.rows.shape == (2, 5)
    assert [sorted(line) for line in found.rows.tolist()] == [[0, 1, 2, 3, 4]] * 2


def test_an_empty_index_finds_nothing():
    found = ImageIndex(MODEL, 4).search(vectors(3), 5, fingerprint=MODEL)
    assert found.rows.shape == (3, 0)
    assert found.images == ((), (), ())


def test_another_models_vectors_are_refused_going_in_and_asking():
    index = filled()
    with pytest.raises(ArgumentError, match="image vectors are of model bbbbbbbbbbbb"):
        index.upsert(images("x"), vectors(1), fingerprint="b" * 64)
    with pytest.raises(ArgumentError, match="query vectors are of model bbbbbbbbbbbb"):
        index.search(vectors(1), fingerprint="b" * 64)


def test_upsert_replaces_by_path_and_add_refuses():
    index = filled()
    new = vectors(2, seed=9)
    changes = index.upsert([IndexedImage("c", "new"), IndexedImage("x")], new, fingerprint=MODEL)
    assert (changes.added, changes.replaced, len(index)) == (1, 1, 6)
    found = index.search(new, 1, fingerprint=MODEL)
    assert [line[0].path for line in found.images] == ["c", "x"]
    assert found.images[0][0].label == "new"
    with pytest.raises(ArgumentError, match="1 images are in the index already, such as 'x'"):
        index.add(images("x", "y"), vectors(2), fingerprint=MODEL)
    assert "y" not in index


def test_delete_moves_rows_up_and_refuses_strangers():
    index = filled()
    with pytest.raises(ArgumentError, match="1 images are not in the index, such as 'nobody'"):
        index.delete(["c", "nobody"])
    assert len(index) == 5
    assert index.delete([WORDS[0], "c", "c"]) == 2
    found = index.search(vectors(5), 1, fingerprint=MODEL)
    assert [found.images[place][0].path for place in (1, 3, 4)] == [WORDS[1], "d", "e"]
    assert WORDS[0] not in index


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 10**6)), max_size=12))
def test_any_sequence_of_changes_equals_a_dictionary(steps):
    index, truth = ImageIndex(MODEL, 4), {}
    for put, number, seed in steps:
        path = f"p{number}"
        if put:
            truth[path] = vectors(1, seed)[0]
            index.upsert(images(path), truth[path][None], fingerprint=MODEL)
        elif path in truth:
            del truth[path]
            index.delete([path])
    assert {image.path for image in index.images} == set(truth)
    for row, image in enumerate(index.images):
        vector = truth[image.path]
        np.testing.assert_allclose(index.vectors[row], vector / np.linalg.norm(vector), atol=1e-6)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (np.zeros((1, 4)), r"image vector 0 \('x'\) has no direction"),
        (np.full((1, 4), np.nan), "has no direction"),
        (np.ones((1, 3)), r"shape \(1, 3\); expected \(N, 4\)"),
        (np.ones((2, 4)), "1 images but 2 embeddings"),
    ],
)
def test_vectors_that_cannot_be_meant(bad, said):
    index = filled()
    with pytest.raises(ArgumentError, match=said):
        index.upsert(images("x"), bad, fingerprint=MODEL)
    assert len(index) == 5


def test_a_path_twice_in_one_update():
    with pytest.raises(ArgumentError, match="'x' comes twice"):
        filled().upsert(images("x", "x"), vectors(2), fingerprint=MODEL)


def test_saved_and_opened_again(tmp_path):
    index = filled()
    index.save(tmp_path / "индекс")
    opened = ImageIndex.load(tmp_path / "индекс")
    assert isinstance(opened.vectors.base, np.memmap)
    assert (opened.images, opened.fingerprint, opened.root) == (index.images, MODEL, "/photos")
    np.testing.assert_array_equal(opened.vectors, index.vectors)
    opened.upsert(images("c", "x"), vectors(2, seed=3), fingerprint=MODEL)
    opened.delete(["d"])
    opened.save(tmp_path / "индекс")
    again = ImageIndex.load(tmp_path / "индекс")
    assert [image.path for image in again.images] == [*WORDS[:3], "e", "x"]
    np.testing.assert_array_equal(again.vectors, opened.vectors)
    names = sorted(file.name for file in (tmp_path / "индекс").iterdir())
    assert names == ["embeddings-2.npy", "images-2.json", "index.json"]


def test_an_empty_index_survives_a_save(tmp_path):
    ImageIndex(MODEL, 4).save(tmp_path)
    assert len(ImageIndex.load(tmp_path)) == 0


@pytest.mark.parametrize("broken", ["embeddings", "images", "index"])
def test_an_interrupted_save_leaves_the_older_index(tmp_path, monkeypatch, broken):
    filled().save(tmp_path)
    newer = ImageIndex.load(tmp_path)
    newer.delete(["c"])
    real = os.replace

    def fail(source, target):
        if os.path.basename(target).startswith(broken):
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        newer.save(tmp_path)
    monkeypatch.undo()
    assert "c" in ImageIndex.load(tmp_path)
    newer.save(tmp_path)
    assert "c" not in ImageIndex.load(tmp_path)


def test_a_reader_keeps_its_index_while_another_process_saves(tmp_path):
    filled().save(tmp_path)
    reader = ImageIndex.load(tmp_path)
    writer = ImageIndex.load(tmp_path)
    writer.delete(list(WORDS[1:]))
    writer.save(tmp_path)
    assert reader.search(vectors(5), 1, fingerprint=MODEL).images[4][0].path == "e"


def test_damaged_folders_are_named(tmp_path):
    with pytest.raises(FileError, match="no index in"):
        ImageIndex.load(tmp_path)
    filled().save(tmp_path)
    facts = json.loads((tmp_path / "index.json").read_text())
    (tmp_path / "embeddings-1.npy").write_bytes(b"short")
    with pytest.raises(FileError, match="damaged"):
        ImageIndex.load(tmp_path)
    np.save(tmp_path / "embeddings-1.npy", vectors(3))
    with pytest.raises(FileError, match="5 images, vectors"):
        ImageIndex.load(tmp_path)
    (tmp_path / "index.json").write_text(json.dumps({**facts, "format": 7}))
    with pytest.raises(FileError, match="format 7"):
        ImageIndex.load(tmp_path)


def test_files_that_changed_are_told_from_those_that_did_not(tmp_path):
    file = tmp_path / "a.jpg"
    file.write_bytes(b"one")
    index = ImageIndex(MODEL, 4)
    assert not index.is_current("a.jpg", file)
    index.add([IndexedImage.of_file(file, "a.jpg")], vectors(1), fingerprint=MODEL)
    assert index.is_current("a.jpg", file)
    os.utime(file, ns=(1, 1))
    assert index.is_current("a.jpg", file), "same content under a new time"
    file.write_bytes(b"two")
    os.utime(file, ns=(2, 2))
    assert not index.is_current("a.jpg", file), "same size, other content"
    file.write_bytes(b"longer")
    assert not index.is_current("a.jpg", file)


def test_vectors_cannot_be_written_from_outside():
    with pytest.raises(ValueError, match="read-only"):
        filled().vectors[0] = 0


def test_unknown_engine():
    with pytest.raises(UnknownNameError, match="did you mean 'exact'"):
        ImageIndex(MODEL, 4, engine="exakt")


def test_quality_of_the_engine_is_measured():
    assert filled().check() == 1.0
