import json
import shutil

import pytest
from typer.testing import CliRunner

from lookalike.cli.data import app
from lookalike.config.experiment import Experiment
from lookalike.data.read import read
from lookalike.data.registry import known_datasets
from lookalike.errors import LookalikeError
from lookalike.models.checkpoint import save_model
from lookalike.models.embedder import build_embedder


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    return result.exit_code, result.stdout


def test_an_added_data_set_has_a_name(photos):
    assert run("add", "insects", photos) == (0, f"insects: 6 images, 3 classes, in {photos}\n")
    names = {row["name"]: row["state"] for row in known_datasets()}
    assert (names["glyphs"], names["insects"], names["sop"]) == ("built in", "added", "recognized")


def test_a_table_is_not_written_under_a_name_that_is_not_read(photos, tmp_path):
    for name in ("clean.xlsx", "clean"):
        with pytest.raises(LookalikeError, match=f"{name}: tables are written as .csv, .tsv, .parquet"):
            run("check", photos, "--quiet", "--write", tmp_path / name)


def test_the_table_that_is_checked_is_not_replaced(photos, tmp_path):
    source = tmp_path / "list.csv"
    source.write_text("path,label,camera\n" + "".join(f"{file},x,7\n" for file in photos.rglob("*.png")))
    before = source.read_text()
    (tmp_path / "link.csv").symlink_to(source)
    for name in ("list.csv", "link.csv"):
        with pytest.raises(
            LookalikeError, match="would replace the table that is checked; name another file"
        ):
            run("check", source, "--write", tmp_path / name, "-q")
    assert source.read_text() == before


def test_check_reports_and_writes_what_is_left(photos, tmp_path):
    code, out = run("check", photos, "--quiet")
    assert (code, out.splitlines()[-1]) == (0, "nothing harmful found")
    (photos / "ant" / "1.jpg").write_bytes(b"")
    shutil.copy(photos / "bee" / "1.jpg", photos / "bee" / "copy.jpg")
    clean, page = tmp_path / "clean.csv", tmp_path / "check.html"
    code, out = run("check", photos, "--quiet", "--json", "--write", clean, "--html", page)
    assert code == 1
    assert json.loads(out)["findings"]["unreadable"]["cases"] == [["ant/1.jpg"]]
    assert clean.read_text().count("\n") == 6
    removed = (tmp_path / "clean.removed.csv").read_text().splitlines()
    assert removed[0] == "path,reason"
    assert removed[1].startswith("photos/ant/1.jpg,the file is empty")
    assert removed[2] == "photos/bee/copy.jpg,copy of bee/1.jpg"
    assert page.read_text().count("data:image/jpeg") >= 2
    assert run("check", clean, "--quiet")[0] == 0


def test_check_needs_no_labels(photos, tmp_path):
    flat = tmp_path / "flat"
    flat.mkdir()
    for number, file in enumerate(sorted(photos.rglob("*.jpg"))):
        shutil.copy(file, flat / f"{number}.jpg")
    assert run("check", flat, "--quiet")[0] == 0
    (flat / "0.jpg").write_bytes(b"")
    code, out = run("check", flat, "--quiet")
    assert (code, "0.jpg: the file is empty" in out) == (0, True)  # nothing to train on that it could spoil


def test_check_with_a_model_finds_wrong_labels(photos, tmp_path):
    model = tmp_path / "model"
    embedder = build_embedder("test_resnet", weights="none", size=32, embedding_dim=8)
    save_model(model, embedder, class_names=["a"])
    code, out = run("check", photos, "--model", model, "--quiet", "--json", "--device", "cpu")
    assert code == 0
    assert json.loads(out)["images"] == 6


def test_split_is_the_split_that_a_run_makes(tmp_path, image):
    for c in range(40):
        image(tmp_path / "d" / f"c{c}" / "0.jpg", seed=c)
        image(tmp_path / "d" / f"c{c}" / "1.jpg", seed=100 + c)
    shown = json.loads(run("split", tmp_path / "d", "--json")[1])
    split = Experiment().split(read(tmp_path / "d"))
    assert shown["digest"] == split.digest()
    assert shown["test"]["classes"] == split.test.num_classes == 12


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


@pytest.mark.parametrize("command", ["add", "check", "split"])
def test_every_command_has_help_that_ends_in_an_example(command):
    code, out = run(command, "--help")
    assert code == 0
    assert f"Example: lookalike data {command}" in " ".join(out.split())
