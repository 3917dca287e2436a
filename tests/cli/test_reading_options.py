"""The options of reading data are in every command that reads it, and mean the same in each."""

import pytest
from typer.main import get_command

from lookalike.cli import app
from lookalike.data.read import read
from lookalike.data.readers.written_tables import write_table
from lookalike.export import checked, hub
from lookalike.export.verify import ExportError

READ_NO_DATA_SET = {
    "cache clear", "cache limit", "cache list", "compare", "doctor", "list", "search", "serve", "show",
    "study run", "study show", "study table",
}  # fmt: skip
"""Commands of which none reads a data set; studies read whole published ones."""
SETTINGS = ["model.backbone=test_resnet", "model.weights=none", "model.embedding_dim=8", "data.image_size=32"]
SETTINGS += ["data.workers=0", "train.mode=frozen", "train.epochs=1"]
FAST = [word for setting in SETTINGS for word in ("--set", setting)]

READERS = {
    "train": ["train", "short.csv", "--out", "runs/short", "--overwrite", *FAST],
    "evaluate": ["evaluate", "runs/photos", "short.csv"],
    "embed": ["embed", "runs/photos", "short.csv", "--out", "short.npz"],
    "calibrate": ["calibrate", "runs/photos", "new.csv"],
    "data add": ["data", "add", "short", "short.csv"],
    "data check": ["data", "check", "short.csv"],
    "data split": ["data", "split", "short.csv"],
    "export": ["export", "runs/photos", "--pt2", "short.pt2", "--images", "short.csv"],
    "index": ["index", "runs/photos", "short.csv", "--out", "short.index"],
    "push": ["push", "runs/photos", "somebody/photos", "--images", "short.csv"],
}
"""Every other command, on a table that lists a file which is not there."""


def commands(group, prefix=""):
    for name, command in group.commands.items():
        yield from (
            commands(command, f"{name} ") if hasattr(command, "commands") else [(prefix + name, command)]
        )


ALL = dict(commands(get_command(app)))


@pytest.fixture(scope="module")
def short(desk, trained):
    """Tables of the photos that also list an image which is not there; in `new.csv` with class names of their own."""
    write_table(read(desk / "photos"), desk / "short.csv")
    lines = [*(desk / "short.csv").read_text(encoding="utf-8").splitlines(), "photos/0/gone.png,0"]
    (desk / "short.csv").write_text("\n".join(lines), encoding="utf-8")
    (desk / "new.csv").write_text(
        "\n".join([lines[0], *(line.replace(",", ",new ") for line in lines[1:])]), encoding="utf-8"
    )


@pytest.fixture
def quick_export(monkeypatch):
    """Exports read their images and write nothing."""
    monkeypatch.setattr(checked, "export_checked", lambda kind, model, target, table: f"{len(table)} images")


def test_every_command_reads_data_or_does_not():
    assert set(ALL) == set(READERS) | READ_NO_DATA_SET


@pytest.mark.parametrize("name", READERS)
def test_a_command_that_reads_data_has_the_options(name):
    options = {
        word for parameter in ALL[name].params for word in (*parameter.opts, *parameter.secondary_opts)
    }
    assert {"--layout", "--verify", "--no-verify", "--ignore-label"} <= options


@pytest.mark.parametrize("name", [name for name in READERS if name != "push"])
def test_an_incomplete_table_is_read_when_asked_for(name, short, quick_export, lookalike):
    strict, lenient = lookalike(*READERS[name], "--verify"), lookalike(*READERS[name], "--no-verify")
    assert strict.code == 1
    assert "1 of 73 images are missing" in strict.err
    assert "images are missing" not in lenient.err
    assert (lenient.code, name) in ((0, name), (1, "data check"))


def test_push_reads_so_too(short, lookalike, monkeypatch):
    checked = []

    def export_checked(kind, model, target, table, *, description):
        checked.append(len(table))
        raise ExportError("far enough")

    monkeypatch.setattr(hub, "_check_account", lambda api, name: None)
    monkeypatch.setattr(hub.ModelCard, "validate", lambda card: None)
    monkeypatch.setattr(hub, "export_checked", export_checked)
    assert "images are missing" in lookalike(*READERS["push"]).err
    assert "far enough" in lookalike(*READERS["push"], "--no-verify").err
    assert checked == [31]  # of 32, without the missing one


def test_a_run_reads_its_own_data_as_it_did(short, quick_export, lookalike):
    """Without data named, the settings of the run count; options count before them."""
    assert lookalike(*READERS["train"], "--no-verify", "--ignore-label", "3").code == 0
    for command in (["evaluate"], ["calibrate"], ["export", "--pt2", "own.pt2"]):
        own = lookalike(command[0], "runs/short", *command[1:])
        assert own.code == 0, own.err
        assert "images are missing" in lookalike(command[0], "runs/short", *command[1:], "--verify").err


def test_a_name_stands_for_data_read_in_one_way(short, lookalike):
    added = lookalike(*READERS["data add"], "--no-verify", "--ignore-label", "3")
    assert added.out.startswith("short: 67 images, 11 classes")
    assert lookalike("data", "split", "short").code == 0


def test_an_interrupted_run_keeps_its_way_of_reading(short, lookalike):
    assert (
        "--resume continues with the run's own settings"
        in lookalike("train", "short.csv", "--out", "runs/short", "--resume", "--no-verify").err
    )
