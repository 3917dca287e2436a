"""`lookalike evaluate` on files: strict JSON, ignored labels, clipped K, and refusals in one line."""

import json

import numpy as np
import pytest

from lookalike.cli import run


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    """Runs a command in an empty folder; returns its exit code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run_command(*words):
        code = run(["evaluate", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_command


def save(labels, name="e.npz", dim=8):
    generator = np.random.default_rng(0)
    np.savez(name, embeddings=generator.normal(size=(len(labels), dim)).astype("f4"), labels=labels)


def strict(text):
    def refuse(word):
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)


def test_nothing_to_retrieve_is_null_in_json(call):
    save(np.arange(10))
    code, out, _ = call("--embeddings", "e.npz", "--json", "--save", "scores")
    assert code == 0
    assert strict(out)["recall_at_1"] is None
    with open("scores.json", encoding="utf-8") as stream:
        assert strict(stream.read())["class_average"]["map_at_r"] is None
    _, out, _ = call("--embeddings", "e.npz")
    assert "no query has a match" in out
    assert "nan" not in out


def test_junk_is_refused_or_left_out_and_counted(call):
    save(np.concatenate([np.full(6, -1), np.repeat([1, 2, 3], 4)]))
    code, _, err = call("--embeddings", "e.npz")
    assert code == 1
    assert "--ignore-label=-1" in err
    assert err.count("\n") == 1
    code, out, _ = call("--embeddings", "e.npz", "--ignore-label=-1", "--json")
    assert code == 0
    assert strict(out)["counts"]["ignored"] == {"queries": 6, "gallery": 6}


def test_ks_are_those_asked_for_and_clipped(call):
    save(np.repeat(np.arange(5), 4))
    _, out, _ = call("--embeddings", "e.npz", "--ks", "3,100")
    assert "recall_at_3" in out
    assert "K = 100 is more than a query can retrieve; clipped to 19" in out
    assert "recall_at_1 " not in out
    code, _, err = call("--embeddings", "e.npz", "--ks", "1;2")
    assert code == 1
    assert "--ks is '1;2'; expected whole numbers" in err


def test_what_the_gallery_is_is_said(call):
    save(np.repeat(np.arange(5), 4))
    assert "20 rows of the same set" in call("--embeddings", "e.npz")[1]
    out = call("--embeddings", "e.npz", "--gallery-embeddings", "e.npz")[1]
    assert "a separate gallery of 20" in out
    assert "20 of 20 queries have an exact copy in the separate gallery" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a run directory, or give --embeddings"),
        (["--embeddings", "absent.npz"], "no file absent.npz"),
        (["--embeddings", "e.npz", "--similarity", "cosin"], "did you mean 'cosine'"),
        (["--embeddings", "e.npz", "--no-match", "drop"], "no_match is 'drop'"),
        (["--embeddings", "e.npz", "--save", "nowhere/scores"], "no folder nowhere"),
    ],
)
def test_mistakes_are_one_line(call, words, message):
    save(np.repeat(np.arange(5), 4))
    code, _, err = call(*words)
    assert code == 1
    assert message in err
    assert err.count("\n") == 1


def test_rows_that_are_not_finite_are_named(call):
    rows = np.ones((6, 3), dtype="f4")
    rows[4, 1] = np.inf
    np.savez("bad.npz", embeddings=rows, labels=np.arange(6) % 2)
    code, _, err = call("--embeddings", "bad.npz")
    assert code == 1
    assert "1 of 6 embeddings are not finite (NaN, infinite or beyond float32); first: row 4" in err


def test_where_to_save_is_checked_before_anything_is_computed(call, monkeypatch):
    save(np.repeat(np.arange(5), 4))
    monkeypatch.setattr("lookalike.evaluation.files.evaluate_files", None)  # not called
    code, _, err = call("--embeddings", "e.npz", "--save", "nowhere/scores")
    assert code == 1
    assert "no folder nowhere" in err
