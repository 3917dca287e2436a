"""lookalike study: show, run, table."""

import json

import pytest

TOY = (
    "--dataset", "photos", "--mode", "frozen", "--backbone", "test_resnet", "--set", "model.weights=none",
    "--set", "train.epochs=1", "--set", "data.workers=0", "--set", "model.embedding_dim=8",
    "--set", "data.image_size=32", "--seeds", "1", "--protocol", "held_out", "--quiet",
)  # fmt: skip


def test_show_prints_what_differs_and_what_was_published(lookalike):
    shown = lookalike("study", "show", "proxynca_pp/table7").out
    assert "loss.temperature=1" in shown
    assert "61.4±0.4 [S]" in shown
    assert "optimizer=adam" in shown
    tree = json.loads(lookalike("study", "show", "proxynca_pp/table7", "--json").out)
    assert tree["rows"][1]["published"]["recall_at_1"] == {
        "text": "61.4±0.4", "value": 61.4, "spread": 0.4, "source": "S",
    }  # fmt: skip


def test_run_continues_and_table_prints_what_there_is(lookalike, tmp_path):
    first = lookalike("study", "run", "proxynca_pp/table7", *TOY, "--rows=-scale", "--out", tmp_path)
    assert first.code == 0, first.err
    assert "Measured on photos (photos, protocol held_out, network test_resnet, mode frozen" in first.out
    assert "protocol held_out, selected on validation classes. Not the paper's experiment" in first.out
    scores = {file: file.stat().st_mtime_ns for file in tmp_path.glob("runs/*/run/result.json")}
    both = ("--rows", "-scale,-max", "--out", tmp_path, "--json")
    again = lookalike("study", "run", "proxynca_pp/table7", *TOY, *both)
    tree = json.loads(again.out)
    assert [row["row"] for row in tree["rows"]] == ["-scale", "-max"]
    assert len(scores) == 1
    assert {file: file.stat().st_mtime_ns for file in scores} == scores
    tables = json.loads(lookalike("study", "table", "proxynca_pp/table7", "--out", tmp_path, "--json").out)
    assert tables == [tree]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("show", "proxynca_pp/tabel7"), "did you mean 'proxynca_pp/table7'"),
        (("run", "proxynca_pp/table7", "--smoke", "--rows", "ful"), "did you mean 'full'"),
        (("run", "proxynca_pp/table7", "--smoke", "--budget", "soon"), "such as 10m"),
        (("run", "proxynca_pp/table7", "--smoke", "--mode", "frosen"), "did you mean 'frozen'"),
        (("run", "proxynca_pp/table7", "--smoke", "--sampler", "tpee"), "did you mean 'tpe'"),
        (("run", "proxynca_pp/table7", "--data", "nowhere"), "no folder 'nowhere'"),
        (("table", "hpl/table1", "--out", "nowhere"), "nothing of hpl/table1 has been run"),
    ],
)
def test_refusals_are_one_line_with_the_remedy(lookalike, words, complaint):
    done = lookalike("study", *words)
    assert done.code == 1
    assert complaint in done.err.splitlines()[-1]


def test_a_failed_row_shows_in_the_table_and_in_the_exit_code(lookalike, tmp_path):
    done = lookalike(
        "study", "run", "proxynca_pp/table7", *TOY, "--rows", "full", "--out", tmp_path,
        "--set", "model.pooling=k_max", "--set", "model.pooling_k=99",
    )  # fmt: skip
    assert done.code == 1
    assert "failed: " in done.out
