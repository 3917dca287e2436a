import json

import pytest
from typer.testing import CliRunner

from lookalike.cli.data import app


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    return result.exit_code, result.stdout


def test_add_then_list(photos):
    assert run("add", "insects", photos) == (0, f"insects: 6 images, 3 classes, in {photos}\n")
    code, out = run("list")
    assert code == 0
    assert "insects" in out
    assert "cub200" in out
    names = {row["name"]: row["state"] for row in json.loads(run("list", "--json")[1])}
    assert (names["glyphs"], names["insects"], names["sop"]) == ("built in", "added", "recognized")


def test_check_reports_and_writes_what_is_left(photos, tmp_path):
    code, out = run("check", photos, "--quiet")
    assert (code, out.splitlines()[-1]) == (0, "nothing harmful found")
    (photos / "ant" / "1.jpg").write_bytes(b"")
    code, out = run("check", photos, "--quiet", "--strict", "--json", "--out", tmp_path / "clean.csv")
    assert code == 1
    assert list(json.loads(out)["unreadable"]) == ["ant/1.jpg"]
    assert (tmp_path / "clean.csv").read_text().count("\n") == 6


def test_split_shows_the_digest_and_writes_a_file_that_reproduces_it(tmp_path, image):
    for c in range(10):
        for i in range(2):
            image(tmp_path / "d" / f"c{c}" / f"{i}.jpg", seed=10 * c + i)
    code, out = run(
        "split", tmp_path / "d", "--test-fraction", 0.3, "--json", "--out", tmp_path / "d" / "split.csv"
    )
    first = json.loads(out)
    assert code == 0
    assert [first[p]["classes"] for p in ("train", "validation", "test")] == [5, 2, 3]
    second = json.loads(run("split", tmp_path / "d", "--seed", 7, "--json")[1])
    assert second["source"] == "named"
    assert {p: second[p] for p in ("train", "test")} == {p: first[p] for p in ("train", "test")}
    assert "digest: " in run("split", tmp_path / "d")[1]


@pytest.mark.parametrize("verb", ["list", "add", "check", "split"])
def test_every_verb_has_help_that_ends_in_an_example(verb):
    code, out = run(verb, "--help")
    assert code == 0
    assert f"Example: lookalike data {verb}" in " ".join(out.split())
