"""A folder of good and bad files goes through every command: bad ones are named, nothing ends in a traceback."""

import json
import os

import pytest
from zoo import BROKEN, WHOLE, pattern

from lookalike.cli import run

FAST = ["model.backbone=test_resnet", "model.weights=none", "model.embedding_dim=8", "data.image_size=32"]
FAST += ["data.workers=0", "train.mode=frozen", "train.epochs=1"]
SETTINGS = [word for setting in FAST for word in ("--set", setting)]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """photos/: 8 classes of 4 images, one with a name that is not UTF-8, with the zoo's files among them."""
    folder = tmp_path_factory.mktemp("work")
    for c in range(8):
        for i in range(4):
            (folder / "photos" / str(c)).mkdir(parents=True, exist_ok=True)
            pattern((48, 32), seed=10 * c + i).save(folder / "photos" / f"{c}/{i}.png")
    for number, (name, data) in enumerate({**WHOLE, **BROKEN}.items()):
        (folder / "photos" / str(number % 8) / name).write_bytes(data)
    (folder / "photos" / "3" / "gone.png").symlink_to("/nowhere.png")
    os.rename(folder / "photos" / "2", os.fsencode(folder / "photos") + b"/caf\xe9")
    return folder


@pytest.fixture
def call(work, monkeypatch, capsys, caplog):
    def call(*arguments):
        monkeypatch.chdir(work)
        monkeypatch.setenv("LOOKALIKE_CACHE", str(work / "cache"))
        caplog.clear()
        code = run([str(a) for a in arguments])
        out = capsys.readouterr()
        assert "Traceback" not in out.err
        return code, out.out, out.err + "\n".join(caplog.messages)

    return call


def test_every_command_names_bad_files_and_uses_the_others(work, call):
    code, out, _ = call(
        "data", "check", "photos", "--json", "--write", "clean.csv", "--html", "check.html", "-q"
    )
    report = json.loads(out)
    bad = {case[0].rpartition("/")[2] for case in report["findings"]["unreadable"]["cases"]}
    assert (code, bad) == (1, {*BROKEN, "gone.png"})

    code, _, err = call("train", "photos", "--out", "run", "-q", *SETTINGS)
    assert (code, "bomb.png" in err) == (0, True)
    code, _, err = call("embed", "run", "clean.csv", "--out", "clean.npy", "-q")
    assert (code, "skipped" in err) == (0, False)
    code, _, err = call("evaluate", "run", "-q")
    assert (code, "bomb.png" in err) == (0, True)
    code, out, _ = call("embed", "run", "photos", "--out", "vectors.parquet", "-q")
    assert (code, out.split()[0]) == (0, str(report["images"] - len(bad)))
    code, out, err = call("index", "run", "photos", "--out", "photos.index", "-q")
    assert (code in (0, 1), "bomb.png" in out + err) == (True, True)
    code, out, err = call("search", "photos.index", "photos/0/1.png", "photos/7/bomb.png", "-k", "3")
    assert "photos/0/1.png" in out


@pytest.mark.parametrize(
    "words", [["train", "--out", "never"], ["evaluate"], ["embed", "--out", "never.npy"]]
)
def test_or_stops_before_anything_is_made(work, call, words):
    command, *options = words
    if command != "train" and not (work / "run").is_dir():
        pytest.skip("needs the run of the test above")
    run_argument = [] if command == "train" else ["run"]
    fail = ["--set", "data.on_bad_file=fail"] if command == "train" else ["--on-bad-file", "fail"]
    code, _, err = call(command, *run_argument, "photos", *options, *fail, "-q")
    assert (code, "cannot be decoded" in err) == (1, True)
    assert not (work / "never").exists()
    assert not (work / "never.npy").exists()


def test_every_command_reads_the_images_that_a_table_means(work, call):
    """Ids without suffix, in columns of other names."""
    rows = [f"{c}/{i},thing {c}" for c in (0, 1, 3, 4, 5, 6, 7) for i in range(4)]
    (work / "photos" / "ids.csv").write_text("\n".join(["image_id,class_name", *rows]))
    table = "photos/ids.csv"
    assert call("train", table, "--out", "run of ids", "-q", *SETTINGS)[0] == 0
    assert call("evaluate", "run of ids", table, "-q")[0] == 0
    assert call("embed", "run of ids", table, "--out", "ids.npz", "-q")[1].startswith("28 images")
    assert call("index", "run of ids", table, "--out", "index of ids", "-q")[1].startswith(
        "index of ids: 28 images (28 added"
    )
    assert "3/1.png" in call("search", "index of ids", "photos/3/1.png", "-k", "1")[1]
    assert call("data", "check", table, "--write", "of_ids.csv", "-q")[0] == 0
    assert call("data", "split", "of_ids.csv")[0] == 0
