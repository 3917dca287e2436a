"""Vectors from files of every kind give the same result as from memory."""

import numpy as np
import polars as pl
import pytest

from lookalike.errors import DataError, FileError
from lookalike.evaluation import evaluate, evaluate_files
from lookalike.evaluation.files import read_embeddings


@pytest.fixture
def vectors():
    generator = np.random.default_rng(0)
    return generator.normal(size=(40, 6)).astype(np.float32), generator.integers(0, 6, 40)


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet list", "parquet columns"])
def test_every_kind_of_file(kind, vectors, tmp_path):
    rows, labels = vectors
    label_file = None
    if kind == "npy":
        file, label_file = tmp_path / "e.npy", tmp_path / "l.npy"
        np.save(file, rows)
        np.save(label_file, labels)
    elif kind == "npz":
        file = tmp_path / "e.npz"
        np.savez(file, embeddings=rows, labels=labels)
    else:
        file = tmp_path / "e.parquet"
        columns = {"embedding": rows.tolist()} if "list" in kind else {f"d{i}": rows[:, i] for i in range(6)}
        pl.DataFrame({**columns, "label": labels}).write_parquet(file)
    assert evaluate_files(file, label_file).to_dict() == evaluate(rows, labels).to_dict()


def test_a_gallery_of_its_own_and_words_as_labels(vectors, tmp_path):
    rows, labels = vectors
    words = np.array(["oak", "elm", "ash", "fir", "yew", "box"])[labels]
    np.savez(tmp_path / "q.npz", embeddings=rows[:10], labels=words[:10])
    np.savez(tmp_path / "g.npz", embeddings=rows[10:], labels=words[10:])
    found = evaluate_files(tmp_path / "q.npz", gallery_embeddings=tmp_path / "g.npz")
    expected = evaluate(rows[:10], labels[:10], gallery_embeddings=rows[10:], gallery_labels=labels[10:])
    assert found.values == expected.values
    assert set(found.per_class()["class"]) <= set(words)


def test_npy_stays_on_disk_even_when_it_does_not_fit_the_bound(vectors, tmp_path):
    rows, labels = vectors
    np.save(tmp_path / "e.npy", rows)
    np.save(tmp_path / "l.npy", labels)
    matrix, _ = read_embeddings(tmp_path / "e.npy", tmp_path / "l.npy")
    assert isinstance(matrix, np.memmap)
    big = np.lib.format.open_memmap(tmp_path / "big.npy", mode="w+", dtype=np.float32, shape=(3000, 256))
    big[:] = np.random.default_rng(1).normal(size=(3000, 256))
    classes = np.arange(3000) % 500
    assert evaluate(big, classes, memory_mb=1).values == evaluate(np.array(big), classes).values


def test_somebody_elses_embeddings(shared_data):
    folder = shared_data / "embeddings"
    result = evaluate_files(folder / "cars_train_embeddings.npy", folder / "cars_train_labels.npy")
    assert result.counts["queries"] == 8054
    assert result.counts["classes"] == 98
    assert result.recall_at_1 == pytest.approx(0.9080, abs=1e-4)
    assert result.map_at_r == pytest.approx(0.6576, abs=1e-4)


def test_refusals(vectors, tmp_path):
    rows, labels = vectors
    np.save(tmp_path / "e.npy", rows)
    np.save(tmp_path / "short.npy", labels[:-1])
    np.save(tmp_path / "half.npy", labels + 0.5)
    np.savez(tmp_path / "odd.npz", first=rows, second=labels)
    (tmp_path / "text.npy").write_text("not an array")
    with pytest.raises(FileError, match="no file"):
        evaluate_files(tmp_path / "absent.npy", tmp_path / "short.npy")
    with pytest.raises(DataError, match=r"39 labels.*40 embeddings"):
        evaluate_files(tmp_path / "e.npy", tmp_path / "short.npy")
    with pytest.raises(DataError, match="not whole numbers"):
        evaluate_files(tmp_path / "e.npy", tmp_path / "half.npy")
    with pytest.raises(DataError, match="holds no labels"):
        evaluate_files(tmp_path / "e.npy")
    with pytest.raises(DataError, match="holds first, second"):
        evaluate_files(tmp_path / "odd.npz")
    with pytest.raises(FileError, match="cannot be read"):
        evaluate_files(tmp_path / "text.npy", tmp_path / "short.npy")
    (tmp_path / "e.csv").write_text("1,2")
    with pytest.raises(FileError, match=r"expected \.npy, \.npz or \.parquet"):
        evaluate_files(tmp_path / "e.csv")


def test_floating_labels_that_may_have_been_rounded_are_refused(vectors, tmp_path):
    """float32 holds 2^24 + 1 as 2^24: two classes would become one."""
    rows, _ = vectors
    np.save(tmp_path / "e.npy", rows)
    for dtype, limit in (("f2", 2**11), ("f4", 2**24), ("f8", 2**53)):
        np.save(tmp_path / "labels.npy", (limit + np.arange(40) % 2).astype(dtype))
        with pytest.raises(DataError, match=f"from {limit:,} on.*save the labels as integers"):
            evaluate_files(tmp_path / "e.npy", tmp_path / "labels.npy")
        np.save(tmp_path / "labels.npy", (limit - 1 - np.arange(40) % 2).astype(dtype))
        assert evaluate_files(tmp_path / "e.npy", tmp_path / "labels.npy").counts["classes"] == 2


@pytest.mark.parametrize("words", [False, True])
def test_labels_to_ignore_are_written_as_in_the_file(vectors, tmp_path, words):
    rows, _ = vectors
    labels = np.repeat([-1, 3, 4, 5], 10)
    np.savez(tmp_path / "e.npz", embeddings=rows, labels=labels.astype(str) if words else labels)
    result = evaluate_files(tmp_path / "e.npz", ignore_labels=["-1"])
    assert result.counts["queries"] == 30
    assert result.counts["ignored"] == {"queries": 10, "gallery": 10}
    with pytest.raises(DataError, match="no row has the label 'junk'"):
        evaluate_files(tmp_path / "e.npz", ignore_labels=["junk"])
