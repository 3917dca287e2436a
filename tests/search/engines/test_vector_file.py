"""The two raw files: what a killed writer leaves, deletion, compaction, readers in between."""

import numpy as np
import pytest

from lookalike.errors import FileError
from lookalike.search.engines.vector_file import VectorFile

DIM = 4


def rows(count, start=0):
    return np.arange(start * DIM, (start + count) * DIM, dtype=np.float32).reshape(count, DIM)


@pytest.fixture
def file(tmp_path):
    made = VectorFile(tmp_path, DIM, writable=True)
    made.add(np.arange(10), rows(10))
    return made


@pytest.mark.parametrize("extra", [1, 7, 16, 50])
def test_vectors_without_ids_are_cut_off_by_the_next_writer(file, tmp_path, extra):
    with (tmp_path / "vectors-0.f32").open("ab") as stream:
        stream.write(b"x" * extra)
    assert len(VectorFile(tmp_path, DIM, writable=False)) == 10
    again = VectorFile(tmp_path, DIM, writable=True)
    again.add(np.array([10]), rows(1, 10))
    np.testing.assert_array_equal(again.vectors(np.arange(11)), rows(11))


@pytest.mark.parametrize("extra", [1, 7])
def test_half_an_id_is_cut_off(file, tmp_path, extra):
    with (tmp_path / "ids-0.i64").open("ab") as stream:
        stream.write(b"\1" * extra)
    again = VectorFile(tmp_path, DIM, writable=True)
    again.add(np.array([10]), rows(1, 10))
    assert again.row_ids.tolist() == list(range(11))


def test_deletion_is_seen_by_the_next_reader_and_many_deletions_compact(file, tmp_path):
    reader = VectorFile(tmp_path, DIM, writable=False)
    file.delete(np.array([1, 3]))
    assert file.generation == 0
    assert VectorFile(tmp_path, DIM, writable=False).live == 8
    file.delete(np.array([5]))
    assert file.generation == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["generation", "ids-1.i64", "vectors-1.f32"]
    for opened in (file, VectorFile(tmp_path, DIM, writable=False), VectorFile(tmp_path, DIM, writable=True)):
        assert opened.row_ids.tolist() == [0, 2, 4, 6, 7, 8, 9]
        np.testing.assert_array_equal(opened.vectors(np.array([9, 0])), rows(10)[[9, 0]])
    np.testing.assert_array_equal(reader.vectors(np.array([5])), rows(10)[[5]])  # keeps what it opened


def test_files_of_an_unfinished_compaction_are_ignored_and_removed(file, tmp_path):
    (tmp_path / "vectors-1.f32").write_bytes(b"half")
    assert len(VectorFile(tmp_path, DIM, writable=False)) == 10
    assert len(VectorFile(tmp_path, DIM, writable=True)) == 10
    assert not (tmp_path / "vectors-1.f32").exists()


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda f: (f / "vectors-0.f32").write_bytes(rows(3).tobytes()), "3 vectors for 10 ids"),
        (lambda f: (f / "generation").write_text("x"), "'.*generation' is damaged"),
        (lambda f: (f / "generation").write_text("7"), "is missing|cannot be opened"),
    ],
)
def test_damage_is_reported_and_nothing_is_cut_or_removed(file, tmp_path, writable, damage, words):
    damage(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(FileError, match=words):
        VectorFile(tmp_path, DIM, writable=writable)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
