"""The run directory: who may use it, and what a killed run may have left."""

import pytest

from lookalike.config.experiment import Experiment
from lookalike.errors import FileError
from lookalike.training.run_dir import RunDir
from lookalike.training.tensor_tree import save_tree


def test_a_folder_with_what_a_killed_start_left_may_be_used(tmp_path):
    for name in ("data.json", "environment.json", ".lock", ".experiment.yaml.77.tmp"):
        (tmp_path / name).write_text("{}")
    RunDir(tmp_path).check_free()
    with RunDir(tmp_path).locked():
        assert not list(tmp_path.glob("*.tmp"))
        RunDir(tmp_path).create(Experiment(), {}, {})
    assert RunDir(tmp_path).holds_run()


def test_an_earlier_model_goes_before_new_settings_come(tmp_path, monkeypatch):
    run = RunDir(tmp_path)
    run.create(Experiment(), {}, {})
    (tmp_path / "model.safetensors").write_text("old")
    monkeypatch.setattr(Experiment, "save", lambda self, file: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(FileError, match="cannot write the run directory"):
        run.create(Experiment().override(["seed=1"]), {}, {})
    assert not (tmp_path / "model.safetensors").exists()
    assert run.experiment().seed == 0


def test_a_second_process_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("lookalike.training.run_dir.LOCK_SECONDS", 0)
    told = pytest.raises(FileError, match="another process is training in")
    with RunDir(tmp_path).locked(), told, RunDir(tmp_path).locked():
        pass


def test_the_log_is_what_the_states_say(tmp_path):
    run = RunDir(tmp_path)
    run.write_log("select", [{"epoch": 0}, {"epoch": 1}])
    run.write_log("refit", [{"epoch": 0}])
    run.write_log("refit", [{"epoch": 0}, {"epoch": 1, "loss": float("nan")}])
    assert (tmp_path / "log.jsonl").read_text() == (
        '{"stage": "select", "epoch": 0}\n{"stage": "select", "epoch": 1}\n'
        '{"stage": "refit", "epoch": 0}\n{"stage": "refit", "epoch": 1, "loss": null}\n'
    )


@pytest.mark.parametrize(
    "damage", [b"", b"\0" * 40, b"\xff\xfe", b"[1]\n", b"null\n", b'{"epoch": 0}\n', b'{"stage": "sel']
)
def test_a_damaged_log_is_named_and_written_again_from_the_states(damage, tmp_path):
    run = RunDir(tmp_path)
    save_tree(run.state_path("select"), {"history": [{"epoch": 0}, {"epoch": 1}]})
    run.write_log("select", [{"epoch": 0}, {"epoch": 1}])
    (tmp_path / "log.jsonl").write_bytes(damage)
    if damage:
        with pytest.raises(FileError, match=r"log\.jsonl.*--resume"):
            run.read_log("select")
    run.write_log("refit", [{"epoch": 0}])
    assert [record["epoch"] for record in run.read_log("select")] == [0, 1]


@pytest.mark.parametrize("content", ["", "[]", "{}", "null", '{"loss": 1, "crc32": 5}', '{"crc32": "x"}'])
def test_a_damaged_result_is_named(content, tmp_path):
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(FileError, match=r"result\.json"):
        RunDir(tmp_path).read_json("result.json")
