"""Saved results: written, read and compared, from the library and the command line."""

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from lookalike.cli import compare as command
from lookalike.errors import ArgumentError, FileError, UnknownNameError
from lookalike.evaluation import compare_results, evaluate, interval_of, interval_over_seeds, load_result


@pytest.fixture
def saved(tmp_path):
    """Three results on the same 60 queries; the second model is better."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(12), 5)
    centers = generator.normal(size=(12, 6))
    files = []
    for number, noise in enumerate((1.5, 0.7, 1.5)):
        rows = centers[labels] + noise * generator.normal(size=(60, 6))
        files.append(evaluate(rows, labels).save(tmp_path / f"model{number}"))
    return files


def test_what_is_saved_comes_back(tmp_path):
    rows, labels = np.random.default_rng(0).normal(size=(20, 4)), np.arange(20) % 4
    result = evaluate(rows, labels, class_names=["a", "b", "c", "d"])
    loaded = load_result(result.save(tmp_path / "here"))
    assert loaded.summary["recall_at_1"] == result.recall_at_1
    assert loaded.summary["per_class"]["class"] == ["a", "b", "c", "d"]
    assert np.array_equal(loaded.metric("map_at_r"), result.per_query["map_at_r"], equal_nan=True)
    assert loaded.labels.tolist() == labels.tolist()


def test_a_run_folder_holds_the_result_of_its_test_queries(tmp_path):
    result = evaluate(np.eye(4), [0, 0, 1, 1])
    result.save(tmp_path / "test_queries")
    assert load_result(tmp_path).summary["recall_at_1"] == result.recall_at_1


def test_the_better_model_is_found_better(saved):
    found = compare_results(*map(load_result, saved[:2]), "recall_at_1")
    assert found.second > found.first
    assert found.difference.low > 0
    assert found.p_value < 0.05


def test_seeds_and_one_result(saved):
    results = [load_result(file) for file in saved]
    means = [result.summary["mrr"] for result in results]
    assert interval_over_seeds(results, "mrr").mean == pytest.approx(np.mean(means))
    one = interval_of(results[0], "mrr")
    assert one.low < one.mean < one.high


def test_refusals(saved, tmp_path):
    other = evaluate(np.eye(4), [0, 0, 1, 1]).save(tmp_path / "other")
    with pytest.raises(ArgumentError, match="have different queries"):
        compare_results(load_result(saved[0]), load_result(other))
    with pytest.raises(UnknownNameError, match="did you mean 'recall_at_1'"):
        load_result(saved[0]).metric("recal_at_1")
    with pytest.raises(ArgumentError, match="has no recall_at_16"):
        load_result(saved[0]).metric("recall_at_16")
    with pytest.raises(FileError, match=r"no result in .* no such file or folder"):
        load_result(tmp_path / "absent")
    strict = evaluate(np.eye(4), [0, 0, 1, 1], no_match="miss").save(tmp_path / "strict")
    with pytest.raises(ArgumentError, match="no_match=exclude"):
        compare_results(load_result(other), load_result(strict))
    (tmp_path / "text.json").write_text("[]")
    (tmp_path / "text.npz").write_text("")
    with pytest.raises(FileError, match="are not a saved result"):
        load_result(tmp_path / "text.json")


def test_nothing_to_compare_is_said(tmp_path):
    """Ten singletons: no query has a value."""
    lone = load_result(evaluate(np.eye(10), range(10)).save(tmp_path / "lone"))
    with pytest.raises(ArgumentError, match="no query has a value"):
        interval_of(lone)
    with pytest.raises(ArgumentError, match="has no recall_at_1"):
        interval_over_seeds([lone, lone])


def call(*arguments):
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command("compare")(command.compare)
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def strict_json(text):
    """JSON as a strict reader reads it: NaN is refused."""

    def refuse(word):
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)


def test_command_line_of_two(saved):
    printed = call(*saved[:2], "--metric", "mrr")
    assert printed.exit_code == 0
    assert "difference (second minus first)" in printed.stdout
    assert "The second is better on these queries" in printed.stdout
    assert strict_json(call(*saved[:2], "--json").stdout)["second"] > 0.5
    assert "The first is better" in call(saved[1], saved[0]).stdout
    assert "do not separate the two" in call(saved[0], saved[0]).stdout


def test_command_line_of_one_and_of_seeds(saved):
    assert "by a bootstrap over 12 classes" in call(saved[0]).stdout
    assert "mean over 3 seeds" in call(*saved, "--seeds").stdout
    assert isinstance(call(*saved).exception, ArgumentError)
    assert isinstance(call(saved[0], "--metric", "map_at_rr").exception, UnknownNameError)


def test_one_seed_has_no_interval_and_null_in_json(saved):
    assert strict_json(call(saved[0], "--seeds", "--json").stdout)["low"] is None
    assert "gives no confidence interval" in call(saved[0], "--seeds").stdout


def test_names_with_dots_are_names_of_their_own(tmp_path):
    """`--save scale-0.1` and `--save scale-0.2` are two results."""
    names = ("scale-0.1", "scale-0.2", "scale.v1", "plain")
    for number, name in enumerate(names, start=4):
        evaluate(np.eye(number), [0] * number).save(tmp_path / name)
    for number, name in enumerate(names, start=4):
        for suffix in ("", ".json", ".npz"):
            assert len(load_result(tmp_path / f"{name}{suffix}").rows) == number
    assert len(list(tmp_path.iterdir())) == 2 * len(names)


def test_the_two_files_of_a_result_are_of_one_evaluation(tmp_path, monkeypatch):
    first, second = (evaluate(np.eye(4)[order], [0, 0, 1, 1]) for order in ([0, 0, 1, 1], [0, 1, 0, 1]))
    first.save(tmp_path / "kept")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def fail(*_):
        raise OSError(28, "full")

    with monkeypatch.context() as patch:
        patch.setattr("lookalike.evaluation.result.write_checked", fail)
        with pytest.raises(FileError, match="full; free space or name another file"):
            second.save(tmp_path / "kept")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    second.save(tmp_path / "other")
    (tmp_path / "other.npz").replace(tmp_path / "kept.npz")  # as a kill between two renames
    with pytest.raises(FileError, match="the arrays were written with another"):
        load_result(tmp_path / "kept")
