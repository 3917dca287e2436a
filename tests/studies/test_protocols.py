"""How runs make a number: who trains, who chooses, who tests; and searches that survive."""

import json

import numpy as np
import pytest

from lookalike.config.experiment import Experiment
from lookalike.config.schema import CompatSettings, ScheduleSettings, TrainSettings
from lookalike.data.dataset import LabeledImages
from lookalike.errors import UnknownNameError
from lookalike.optim.schedules import drop_epochs, lr_factor, replay_schedule
from lookalike.studies.metric_keys import check_metric
from lookalike.studies.protocols import PROTOCOLS, Task
from lookalike.studies.protocols.folds import fold_splits, folds, joined
from lookalike.studies.protocols.metrics import costs, measure, retrievals
from lookalike.studies.protocols.single_run import training_half, two_stage_settings
from lookalike.training.run_dir import RunDir
from toys import CLASSES, TOY_SETTINGS, colored_squares


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def task_of(table, folder, *settings, **options):
    experiment = Experiment().override([*TOY_SETTINGS, *settings])
    return Task(table, experiment, folder / "unit", folder / "shared", **options)


def data_facts(folder):
    return RunDir(folder).read_json("data.json")


# ---- the three that train once ----


def test_papers_selects_on_test_and_says_so(squares, tmp_path):
    score = PROTOCOLS["papers"].run(task_of(squares, tmp_path, "model.finish=none"))
    assert score.selected_on == "test"
    result = RunDir(tmp_path / "unit" / "run").read_json("result.json")
    assert result["selected"]["test_used_to_select"] is True
    assert "test classes" in result["selected"]["by"]
    assert result["data"]["classes"] == {
        "train": CLASSES // 2,
        "validation": CLASSES // 2,
        "test": CLASSES // 2,
    }
    best = max(point["map_at_r"] for point in score.curve)
    assert score.metrics["map_at_r"] == pytest.approx(best)


def test_held_out_never_looks_at_the_test_classes(squares, tmp_path):
    score = PROTOCOLS["held_out"].run(task_of(squares, tmp_path))
    result = RunDir(tmp_path / "unit" / "run").read_json("result.json")
    assert score.selected_on == "validation classes"
    assert result["selected"]["test_used_to_select"] is False
    assert sum(result["data"]["classes"].values()) == CLASSES


def test_papers_halves_are_the_datas_own_where_it_names_them(squares, tmp_path):
    named = colored_squares(tmp_path, named_split=True)
    for table in (squares, named):
        kept, held = training_half(table)
        assert kept.class_names == squares.class_names[: CLASSES // 2]
        assert held.class_names == squares.class_names[CLASSES // 2 :]


def test_two_stage_trains_on_half_then_on_all_training_classes(squares, tmp_path):
    score = PROTOCOLS["two_stage"].run(
        task_of(squares, tmp_path, "train.epochs=4", "model.start=random", "model.finish=none")
    )
    folder = tmp_path / "unit" / "run"
    assert data_facts(folder)["classes"] == {"train": 4, "validation": 4, "test": 8}
    result = RunDir(folder).read_json("result.json")
    assert result["selected"]["by"] == "recall_at_1 of 4 validation classes"
    assert score.kept == "trained"
    stages = [json.loads(line)["stage"] for line in (folder / "log.jsonl").read_text().splitlines()]
    assert stages.count("refit") == score.facts["epoch"] + 1


def test_two_stage_watches_recall_with_a_plateau_schedule_unless_the_row_has_one():
    plain = two_stage_settings(Experiment())
    assert (plain.train.schedule.name, plain.train.metric) == ("plateau", "recall_at_1")
    assert plain.train.refit
    own = Experiment().override(["train.schedule.name=plateau", "train.schedule.patience=2"])
    assert two_stage_settings(own).train.schedule.patience == 2


def test_recorded_drops_are_replayed_on_time_or_an_epoch_late():
    """Rises until epoch 3, then rests: with patience 1 the rate falls after epochs 5 and 7."""
    watched = [0.1, 0.2, 0.3, 0.3, 0.3, 0.3, 0.3]
    plateau = ScheduleSettings(name="plateau", gamma=0.1, patience=1)
    recorded = drop_epochs(plateau, epochs=7, metrics=watched)
    assert recorded == [5, 7]
    train = TrainSettings(schedule=plateau)
    exact = replay_schedule(train, recorded)
    late = replay_schedule(train.model_copy(update={"compat": CompatSettings(replay_delay=1)}), recorded)
    factors = [[lr_factor(s, epoch=e, epochs=7, metrics=[]) for e in (5, 6, 7)] for s in (exact, late)]
    assert factors == [pytest.approx([1, 0.1, 0.1]), pytest.approx([1, 1, 0.1])]
    step = ScheduleSettings(name="step", every=2)
    assert replay_schedule(TrainSettings(schedule=step), [1]) == step


def test_an_interrupted_unit_continues(squares, tmp_path):
    whole = PROTOCOLS["papers"].run(task_of(squares, tmp_path / "whole"))
    task = task_of(squares, tmp_path / "cut")

    class Killed(Exception):
        pass

    def kill(text):
        if text.startswith("epoch   1"):
            raise Killed

    task.progress.say = kill
    with pytest.raises(Killed):
        PROTOCOLS["papers"].run(task)
    task.progress.say = lambda text: None
    again = PROTOCOLS["papers"].run(task)
    assert again.metrics["map_at_r"] == whole.metrics["map_at_r"]
    assert [point["map_at_r"] for point in again.curve] == [point["map_at_r"] for point in whole.curve]


# ---- metrics ----


def test_cosine_and_distance_differ_where_they_should():
    """Image 2 points the same way as 0 but is far away: nearest of 0 by cosine is 2, by distance 1."""
    table = LabeledImages(None, tuple("abcd"), np.array([0, 0, 1, 1]), ("x", "y"))
    matrix = np.array([[1, 0], [1, 0.5], [9, 0.1], [9, 3]], dtype=np.float32)
    cosines = [2, 3, 0, 1]  # nearest other row of each, by hand
    by_cosine = np.mean([table.labels[i] == table.labels[j] for i, j in enumerate(cosines)])
    found = measure(table, matrix, ("recall_at_1", "euclidean_recall_at_1"))
    assert (found["recall_at_1"], found["euclidean_recall_at_1"]) == (by_cosine, 1.0)
    raw = measure(table, matrix, ("recall_at_1", "cosine_recall_at_1", "nmi"), similarity="euclidean")
    assert (raw["recall_at_1"], raw["cosine_recall_at_1"]) == (1.0, by_cosine)
    assert raw["nmi"] == 1.0  # the two classes lie apart by length, and not by direction
    assert measure(table, matrix, ("nmi",))["nmi"] < 1.0


def test_costs_by_hand():
    curve = [{"epoch": 0, "seconds": 0.0, "steps": 0}, {"epoch": 1, "seconds": 36.0, "steps": 8}]
    curve.append({"epoch": 2, "seconds": 72.0, "steps": 10})
    keys = ("seconds_per_epoch", "seconds_per_iteration", "hours_to_convergence")
    assert costs(keys, curve, epoch=1) == dict(zip(keys, (36.0, 4.0, 0.01), strict=True))
    assert costs(keys, curve[:1], epoch=0) == {}


def test_retrievals_are_the_nearest_other_images(squares):
    matrix = np.eye(16, dtype=np.float32)[squares.labels]
    matrix[0] = matrix[20]  # the first image of class 0 looks like class 5
    first, *_, last = retrievals(squares, matrix)
    assert (first["query"], last["query"]) == (str(squares.file(0)), str(squares.file(60)))
    assert [hit["same_class"] for hit in first["hits"]] == [False] * 4
    assert [hit["same_class"] for hit in last["hits"]] == [True, True, True, False]


@pytest.mark.parametrize("key", ["recall_at_10", "euclidean_recall_at_10", "cosine_nmi", "peak_memory_gb"])
def test_metrics_that_can_be_computed_pass(key):
    check_metric(key)


@pytest.mark.parametrize("key", ["map_at_k", "recall_at_0", "euclidean_seconds_per_epoch", "recall"])
def test_metrics_that_nobody_computes_are_refused(key):
    with pytest.raises(UnknownNameError, match="unknown metric"):
        check_metric(key)


# ---- folds ----


def test_folds_share_the_test_classes_and_no_class_with_them(squares):
    parts = fold_splits(squares)
    assert len(parts) == 4
    test = {part.test.class_names for part in parts}
    assert test == {squares.class_names[CLASSES // 2 :]}
    validating = [name for part in parts for name in part.validation.class_names]
    assert len(set(validating)) == len(validating) == CLASSES // 2
    for part in parts:
        assert not set(part.train.class_names) & set(part.validation.class_names)


def test_joined_embeddings_are_unit_parts_side_by_side():
    one, other = np.array([[3.0, 4.0]], np.float32), np.array([[0.0, 2.0]], np.float32)
    np.testing.assert_allclose(joined([one, other]), [[0.6, 0.8, 0.0, 1.0]], rtol=1e-6)


def test_a_reproduction_scores_separated_and_concatenated_and_the_search_leaves_the_test_alone(
    squares, tmp_path
):
    task = task_of(
        squares,
        tmp_path,
        "train.epochs=1",
        "loss.name=proxy_nca_pp",
        metrics=("recall_at_1",),
        trials=2,
        sampler="tpe",
    )
    score = folds(task)
    assert set(score.metrics) == {"recall_at_1", "concatenated_recall_at_1"}
    assert set(score.facts["values"]) == {"train.proxy_lr", "loss.temperature"}
    slots = sorted((tmp_path / "shared").glob("slot-*.json"))
    assert len(slots) == 2
    for result in (tmp_path / "shared").rglob("result.json"):
        assert "test" not in json.loads(result.read_text())
    singles = [
        json.loads(file.read_text())["test"]["recall_at_1"]
        for file in (tmp_path / "unit").glob("fold-*/result.json")
    ]
    assert score.metrics["recall_at_1"] == pytest.approx(np.mean(singles))
