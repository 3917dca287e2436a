"""What the commands print, write and refuse."""

import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest

from lookalike.cli import _expand_home
from lookalike.cli import run as run_command
from lookalike.cli.common import print_result
from lookalike.cli.train import default_run
from lookalike.utils.io import read_checked
from toys import photo_folders

FAST = ["--set", "train.mode=frozen", "--set", "train.epochs=1", "--set", "data.workers=0", "--quiet"]


def test_train_leaves_a_complete_run_folder(trained):
    names = {file.name for file in trained.iterdir()}
    assert {
        "model.safetensors",
        "config.json",
        "experiment.yaml",
        "environment.json",
        "data.json",
        "log.jsonl",
        "result.json",
        "report.html",
        "training_state",
    } <= names
    assert not list(trained.rglob("*.pkl")) + list(trained.rglob("*.pt")) + list(trained.rglob("*.tmp"))
    result = json.loads((trained / "result.json").read_text())
    for part in ("start", "validation", "test"):
        assert {"recall_at_1", "map_at_r", "r_precision", "mrr"} <= set(result[part])
    assert result["validation"]["map_at_r"] >= result["start"]["map_at_r"]
    assert result["selected"]["by"].endswith("validation classes")
    assert result["selected"]["test_used_to_select"] is False


def test_report_is_one_file_with_images(trained):
    page = (trained / "report.html").read_text()
    assert page.count("data:image/jpeg;base64,") > 20
    assert 'class="right"' in page
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )


def test_train_json_is_the_result(lookalike, desk):
    done = lookalike("train", "photos", "--out", "runs/json", "--json", *FAST)
    assert done.code == 0
    assert json.loads(done.out) == read_checked(desk / "runs" / "json" / "result.json")
    assert done.err == ""


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("photos", "photos"),
        ("photos/", "photos"),
        ("cars.v2", "cars.v2"),
        ("cars196.zip", "cars196"),
        ("glyphs", "glyphs"),
    ],
)
def test_a_run_is_named_after_its_data(data, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    (tmp_path / "cars.v2").mkdir()
    assert default_run(data) == Path("runs") / name


def test_evaluate_run_gives_the_numbers_of_training(lookalike, trained):
    result = json.loads((trained / "result.json").read_text())
    for words in (["runs/photos"], ["runs/photos", "photos"]):
        done = lookalike("evaluate", *words, "--json", "--quiet")
        assert done.code == 0, done.err
        measured = json.loads(done.out)
        assert measured["recall_at_1"] == pytest.approx(result["test"]["recall_at_1"])
        assert measured["map_at_r"] == pytest.approx(result["test"]["map_at_r"], abs=1e-6)
        assert "own" in measured["notes"][0]


def test_saved_evaluations_can_be_compared(lookalike, trained, desk):
    for run in ("photos", "other"):
        assert (
            lookalike(
                "evaluate", f"runs/{run}", "--save", f"{run}_scores", "--no-match", "miss", "--quiet"
            ).code
            == 0
        )
    done = lookalike("compare", "photos_scores.json", "other_scores.json")
    assert done.code == 0, done.err
    assert "recall_at_1" in done.out


def test_embed_and_evaluate_files_agree(lookalike, trained, desk):
    assert lookalike("embed", "runs/photos", "photos", "--out", "all.npz", "--quiet").code == 0
    assert lookalike("embed", "runs/photos", "photos", "--out", "all.npy", "--quiet").code == 0
    assert lookalike("embed", "runs/photos", "photos", "--out", "all.parquet", "--quiet").code == 0
    stored = np.load("all.npz")
    np.testing.assert_array_equal(stored["embeddings"], np.load("all.npy"))
    answers = [
        json.loads(lookalike("evaluate", "--embeddings", *words, "--json").out)
        for words in (["all.npz"], ["all.parquet"])
    ]
    np.save("labels.npy", stored["labels"])
    answers.append(
        json.loads(lookalike("evaluate", "--embeddings", "all.npy", "--labels", "labels.npy", "--json").out)
    )
    assert answers[0]["map_at_r"] == answers[1]["map_at_r"] == answers[2]["map_at_r"]


def test_embed_averages_as_many_views_as_are_asked_for(lookalike, trained, desk):
    for views in ("1", "2"):
        done = lookalike(
            "embed", "runs/photos", "photos", "--out", f"{views}.npy", "--views", views, "--quiet"
        )
        assert done.code == 0, done.err
        assert ("mirror image averaged" in done.out) == (views == "2")
    assert not np.allclose(np.load("1.npy"), np.load("2.npy"))
    refused = lookalike("embed", "runs/photos", "photos", "--out", "3.npy", "--views", "3", "--quiet")
    assert refused.code != 0
    assert "views is 3; it is 1 (the image) or 2" in refused.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "nowhere", "--out", "r"], "nowhere"),
        (["train", "photos", "--out", "runs/photos"], "--resume"),
        (["train", "photos", "--out", "photos"], "other files"),
        (["train", "photos", "--out", "r", "--set", "loss.scal=3"], "did you mean 'scale'"),
        (["train", "photos", "--out", "r", "--set", "train.epochz=3"], "train.epochs"),
        (["train", "photos", "--out", "r", "--set", "loss.name=proxy_ankor"], "proxy_anchor"),
        (["train", "photos", "--out", "r", "--set", "model.backbone=resnet5O"], "resnet50"),
        (["train", "photos", "--out", "r", "--resume", "--set", "seed=1"], "own settings"),
        (["train", "photos", "--out", "r", "--resume", "--overwrite"], "own settings"),
        (["train", "photos", "--out", "r", "--resume", "--on-bad-file", "fail"], "own settings"),
        (["train", "photos", "--out", "r", "--resume"], "not a run directory"),
        (["train", "photos", "--out", "r", "--device", "cuda:9"], "device"),
        (["evaluate"], "--embeddings"),
        (["evaluate", "photos"], "no model"),
        (["evaluate", "--embeddings", "e.npz", "--device", "hip"], "device is 'hip'"),
        (["evaluate", "runs/photos", "--ks", "a"], "1,2,4,8"),
        (["embed", "runs/photos", "photos", "--out", "x.csv"], ".npz"),
        (["search", "photos", "photos/0/0.png"], "no index"),
        (["show", "photos"], "not a run directory"),
        (["list", "loses"], "did you mean 'losses'"),
    ],
)
def test_failures_are_one_line_and_exit_code_1(lookalike, trained, words, message):
    done = lookalike(*words)
    assert done.code == 1
    last = done.err.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last
    assert "Traceback" not in done.err


def test_memory_that_does_not_suffice_is_one_line_too(lookalike, trained, monkeypatch):
    def greedy(*_, **__):
        raise MemoryError("Unable to allocate 9.1 TiB")

    monkeypatch.setattr("lookalike.models.embedder.Embedder.forward", greedy)
    done = lookalike("embed", trained, "photos", "--out", "v.npz")
    assert done.code == 1
    assert done.err.strip().splitlines()[-1] == (
        "error: out of memory (Unable to allocate 9.1 TiB); give it more memory, or use a model of smaller images "
        "(data.image_size)"
    )


@pytest.mark.parametrize("words", [["trian"], ["train"], ["search", "--kk"]])
def test_wrong_commands_exit_with_2(lookalike, words):
    assert lookalike(*words).code == 2


COMMANDS = [
    "train", "evaluate", "embed", "export", "push", "index", "search", "calibrate", "serve", "list", "show", "compare",
    "data add", "data check", "data split", "study run", "study show", "study table", "cache list", "cache limit",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("words", "place"),
    [
        ([""], "the argument after '{last}'"),
        (["x", ""], "the argument after 'x'"),
        (["x", "--out", ""], "--out"),
        (["--html=", "x"], "--html"),
        (["-k", ""], "-k"),
    ],
)
def test_an_empty_argument_is_refused_by_every_command(lookalike, command, words, place):
    done = lookalike(*command.split(), *words)
    assert done.code == 2
    assert done.err.startswith(f"error: {place.format(last=command.split()[-1])} is empty; ")
    assert done.out == ""
    assert done.err.count("\n") == 1


def test_a_current_folder_that_has_been_removed_is_named(lookalike, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for command in (["train", "glyphs"], ["list", "losses"], ["search", "x", "y.png"]):
        done = lookalike(*command)
        assert (done.code, done.err) == (
            1,
            "error: the current folder has been removed; change to another\n",
        )


def test_a_broken_image_is_named(lookalike, desk, tmp_path, caplog):
    shutil.copytree(desk / "photos", tmp_path / "photos")
    (tmp_path / "photos" / "3" / "2.png").write_bytes(b"\x89PNG\r\n\x1a\n and then nothing")
    skipped = lookalike("train", tmp_path / "photos", "--out", tmp_path / "skipped", *FAST)
    assert skipped.code == 0
    assert "2.png" in caplog.text  # a warning, which the console shows
    refused = lookalike(
        "train", tmp_path / "photos", "--out", tmp_path / "refused", "--set", "data.on_bad_file=fail", *FAST
    )
    assert refused.code == 1
    assert "2.png" in refused.err


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_closed_output_is_no_failure(closed, monkeypatch):
    monkeypatch.setattr(f"sys.{closed}", None)
    assert run_command(["list", "metrics"]) == 0
    assert run_command(["show", "nowhere"]) == 1


@pytest.mark.parametrize(
    ("function", "words", "said"),
    [
        (
            "training.fit.fit",
            ("train", "photos", "--out", "runs/stopped", "--quiet"),
            "stopped; --resume continues the run",
        ),
        ("evaluation.load_result", ("compare", "runs/photos"), "stopped"),
    ],
)
def test_stopping_with_ctrl_c_is_one_line_that_says_how_to_go_on(
    function, words, said, lookalike, monkeypatch
):
    def stop(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"lookalike.{function}", stop)
    done = lookalike(*words)
    assert done.code == 1
    assert done.err.strip() == said


def test_warnings_of_classes_that_the_model_has_seen_stay_with_quiet(lookalike, trained, tmp_path):
    words = ("train", "photos", "--out", tmp_path / "run", "--from", trained, "--test-on-trained")
    done = lookalike(*words, *FAST, "--set", "seed=1")
    assert done.code == 0
    assert "warning: the model was trained on" in done.err


def test_a_model_without_its_run_is_calibrated_on_classes_that_it_does_not_know(lookalike, trained, tmp_path):
    (tmp_path / "model").mkdir()
    shutil.copy(trained / "model.safetensors", tmp_path / "model")
    for folder in Path("photos").iterdir():
        shutil.copytree(folder, tmp_path / "new" / f"new {folder.name}")
    done = lookalike("calibrate", tmp_path / "model", tmp_path / "new", "--recall", "0.9")
    assert done.code == 0, done.err
    assert "12 classes of new that were not trained on" in done.out
    refused = lookalike("calibrate", tmp_path / "model", "photos", "--recall", "0.9")
    assert (refused.code, "classes are new to the model" in refused.err) == (0, False) or refused.code == 1


@pytest.mark.parametrize("variable", ["LOCAL_RANK", "RANK"])
@pytest.mark.parametrize(("rank", "told"), [("0", 1), ("1", 0)])
def test_what_was_read_is_reported_by_the_main_process_alone(
    variable, rank, told, tmp_path, monkeypatch, capsys
):
    photos = photo_folders(tmp_path / "photos", classes=6, each=2)
    (photos / "0" / "0.png").write_bytes(b"no image")
    monkeypatch.setattr(logging.getLogger("lookalike"), "level", logging.WARNING)
    monkeypatch.setenv(variable, rank)
    wrong = ["--set", "loss.name=no_loss", "--out", str(tmp_path / "run")]
    assert run_command(["train", str(photos), *wrong]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert sum("6 classes" in line for line in lines) == told
    assert lines[-1].startswith("error: ")


def test_a_run_without_a_test_can_be_shown(trained, capsys):
    """Runs of a search over settings leave the test classes alone."""
    result = read_checked(trained / "result.json")
    print_result({key: value for key, value in result.items() if key not in ("test", "test_start")})
    header = capsys.readouterr().out.splitlines()[0]
    assert header.split("  ")[-1].strip() == "validation"


@pytest.mark.parametrize("before", ["", "-o", "--out=", "model.weights=", "--set=model.weights="])
@pytest.mark.parametrize(("path", "expanded"), [("~", "/home/me"), ("~/runs/ü", "/home/me/runs/ü")])
def test_a_tilde_is_the_home_folder_wherever_a_path_may_stand(before, path, expanded, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert _expand_home(before + path) == before + expanded


@pytest.mark.parametrize("word", ["a~/x", "label=~x", "=~/x", "x:~/y", "~x"])
def test_any_other_tilde_stays(word):
    assert _expand_home(word) == word
