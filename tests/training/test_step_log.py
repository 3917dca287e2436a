"""The numbers of each step: what they are, where they go, and that an interrupted run's are those of a whole one."""

import csv
import json
import math
import shutil
import sys
import time

import pytest
import torch

from lookalike.config.experiment import Experiment
from lookalike.errors import MissingExtraError, UnknownNameError
from lookalike.training.context import RunOptions
from lookalike.training.fit import fit
from lookalike.training.loggers import LOGGERS, LogTarget
from lookalike.training.step_log import gradient_norm, open_step_log
from lookalike.utils.progress import Progress
from toys import TOY_SETTINGS

pytestmark = pytest.mark.usefixtures("own_cache")
MEASURED = ("images_per_second", "memory_gb")


def toy(*more):
    return Experiment().override([*TOY_SETTINGS, "train.epochs=3", *more])


def read_rows(file):
    with file.open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def without_measured(rows):
    return [{name: value for name, value in row.items() if name not in MEASURED} for row in rows]


@pytest.fixture(scope="module")
def whole(squares, tmp_path_factory):
    """A run directory with its steps as CSV."""
    run = tmp_path_factory.mktemp("logged") / "run"
    fit(squares, run, toy(), options=RunOptions(log_to=["csv"]))
    return run


def test_csv_has_one_row_per_step_and_per_epoch(whole):
    steps, epochs = (read_rows(whole / "logs" / "select" / name) for name in ("steps.csv", "epochs.csv"))
    logged = [json.loads(line) for line in (whole / "log.jsonl").read_text().splitlines()]
    per_epoch = logged[1]["steps"]
    assert [int(row["step"]) for row in steps] == list(range(1, 3 * per_epoch + 1))
    first = [float(row["loss"]) for row in steps[:per_epoch]]
    assert math.isclose(sum(first) / per_epoch, logged[1]["loss"], rel_tol=1e-5)
    assert [float(row["map_at_r"]) for row in epochs] == pytest.approx(
        [record["validation"]["map_at_r"] for record in logged], rel=1e-6
    )
    for row in steps:
        assert all(float(row[name]) > 0 for name in ("gradient_norm", "lr_head", "lr_proxies", *MEASURED))


class Stop(Progress):
    """Interrupts the run after its second epoch."""

    def say(self, text):
        if text.startswith("epoch   2:"):
            raise KeyboardInterrupt


def test_steps_of_several_batches_are_numbered_on_after_an_interruption(squares, tmp_path):
    settings, run = toy("train.accumulate=2", "batch.size=8"), tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        fit(squares, run, settings, options=RunOptions(log_to=["csv"], progress=Stop()))
    fit(squares, run, resume=True, options=RunOptions(log_to=["csv"]))
    numbers = [int(row["step"]) for row in read_rows(run / "logs" / "select" / "steps.csv")]
    assert numbers == list(range(1, len(numbers) + 1))


def test_an_interrupted_run_has_the_steps_of_a_whole_one(whole, squares, tmp_path):
    steps, settings = "logs/select/steps.csv", toy()
    with pytest.raises(KeyboardInterrupt):
        fit(squares, tmp_path / "halted", settings, options=RunOptions(log_to=["csv"], progress=Stop()))
    with (tmp_path / "halted" / steps).open("a") as file:
        file.write("9999,1,1,1,1,1,1\n12")  # an epoch that was begun, and a row that was not finished
    fit(squares, tmp_path / "halted", resume=True, options=RunOptions(log_to=["csv"]))
    assert without_measured(read_rows(tmp_path / "halted" / steps)) == without_measured(
        read_rows(whole / steps)
    )


def test_logging_changes_no_number_and_goes_when_the_run_is_overwritten(whole, squares, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    plain = fit(squares, run, toy(), overwrite=True)
    assert plain.result["test"] == json.loads((whole / "result.json").read_text())["test"]
    assert not (run / "logs").exists()


def test_the_gradient_norm_is_that_of_all_gradients_joined():
    dense, sparse = torch.nn.Parameter(torch.zeros(2, 2)), torch.nn.Parameter(torch.zeros(3, 1))
    dense.grad = torch.tensor([[1.0, 2.0], [2.0, 0.0]])
    rows = torch.tensor([[1, 1]]), torch.tensor([[2.0], [2.0]])  # one row twice: they add up to 4
    sparse.grad = torch.sparse_coo_tensor(*rows, (3, 1), check_invariants=True)
    assert gradient_norm([dense, sparse, torch.nn.Parameter(torch.zeros(1))]) == 5.0
    assert gradient_norm([]) == 0.0


def target(folder):
    return LogTarget(folder, "photos-select", {"seed": 0}, steps_done=0)


def test_tensorboard_reads_what_is_written(tmp_path):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with open_step_log(["tensorboard"], target(tmp_path)) as log:
        log.end_epoch({"epoch": 0, "validation": {"map_at_r": 0.5}})
    events = accumulators.EventAccumulator(str(tmp_path)).Reload()
    (event,) = events.Scalars("epoch/map_at_r")
    assert (event.step, event.value) == (0, 0.5)


def test_wandb_writes_an_offline_run(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    for name, value in {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}.items():
        monkeypatch.setenv(name, value)
    with open_step_log(["wandb"], target(tmp_path)) as log:
        log.end_epoch({"epoch": 0, "validation": {"map_at_r": 0.5}})
    (written,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    deadline = (
        time.monotonic() + 60
    )  # a process of wandb's own writes, on a busy machine after `finish` has returned
    while b"map_at_r" not in (content := written.read_bytes()) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert b"photos-select" in content
    assert b"map_at_r" in content


@pytest.mark.parametrize("name", sorted(set(LOGGERS) - {"csv"}))
def test_a_missing_package_stops_before_anything_is_made(name, squares, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'lookalike\[{name}\]'"):
        fit(squares, tmp_path / "run", toy(), options=RunOptions(log_to=[name]))
    assert not (tmp_path / "run").exists()


def test_an_unknown_logger_is_named(squares, tmp_path):
    with pytest.raises(UnknownNameError, match="unknown logger 'tensorbord'; did you mean 'tensorboard'"):
        fit(squares, tmp_path / "run", toy(), options=RunOptions(log_to=["tensorbord"]))
