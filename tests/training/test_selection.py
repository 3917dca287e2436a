"""Which candidate a run keeps."""

import pytest
import torch

from lookalike.config.experiment import Experiment
from lookalike.evaluation import Interval
from lookalike.training.choose_views import views_line
from lookalike.training.fit import fit
from lookalike.training.run_dir import RunDir
from lookalike.training.selection import choose
from lookalike.training.start_from import PROXIES
from lookalike.training.summary import choice_line
from lookalike.training.tensor_tree import load_tree
from toys import TOY_SETTINGS


def gain(low: float, high: float) -> Interval:
    return Interval((low + high) / 2, low, high, 15)


@pytest.mark.parametrize(
    ("values", "interval", "kept"),
    [
        ({"start": 0.2, "trained": 0.4}, None, "trained"),
        ({"start": 0.2, "trained": 0.2}, None, "start"),
        ({"start": 0.2}, None, "start"),
        ({"start": 0.2, "trained": 0.4, "finished": 0.5}, gain(0.05, 0.15), "finished"),
        ({"start": 0.2, "trained": 0.4, "finished": 0.39}, gain(-0.03, 0.01), "finished"),
        ({"start": 0.2, "trained": 0.4, "finished": 0.3}, gain(-0.15, -0.05), "trained"),
        ({"start": 0.2, "trained": 0.3, "finished": 0.19}, gain(-0.15, 0.01), "trained"),
        ({"start": 0.2, "finished": 0.3}, gain(0.05, 0.15), "finished"),
        ({"start": 0.2, "finished": 0.2}, gain(0.0, 0.0), "start"),
        ({"start": 0.2, "trained": 0.21}, None, "start"),  # within the interval, here 0.05
        ({"start": 0.2, "trained": 0.3, "finished": 0.22}, gain(-0.1, 0.01), "trained"),
        ({"start": 0.2, "trained": 0.23, "finished": 0.24}, gain(0.0, 0.02), "start"),
    ],
)
def test_the_finish_stands_unless_clearly_worse_and_the_start_unless_something_is_clearly_better(
    values, interval, kept
):
    candidates = {name: {"map_at_r": value} for name, value in values.items()}
    over_start = {
        name: gain(value - 0.2 - 0.05, value - 0.2 + 0.05)
        for name, value in values.items()
        if name != "start"
    }
    assert choose(candidates, "map_at_r", interval, over_start) == kept


def test_anything_better_replaces_a_random_projection():
    candidates = {"start": {"map_at_r": 0.2}, "trained": {"map_at_r": 0.21}}
    assert choose(candidates, "map_at_r", None, None) == "trained"


def test_where_one_class_gives_no_interval_the_start_is_kept():
    candidates = {"start": {"map_at_r": 0.2}, "trained": {"map_at_r": 0.9}}
    one_class = {"trained": Interval(0.7, float("nan"), float("nan"), 1)}
    assert choose(candidates, "map_at_r", None, one_class) == "start"


def test_the_choice_is_reported_with_its_interval():
    candidates = {name: {"map_at_r": v} for name, v in (("start", 0.2), ("trained", 0.4), ("finished", 0.39))}
    assert choice_line("finished", 6, candidates, "map_at_r", gain(-0.03, 0.01), epochs=6) == (
        "validation map_at_r: start 20.0, trained 40.0, finished 39.0 (the finish changes it by -3.0 to +1.0); "
        "epoch 6 with the whitened finish is kept"
    )


def test_a_gain_of_one_class_has_no_interval_and_is_not_nan():
    candidates = {name: {"map_at_r": 0.5} for name in ("start", "trained", "finished")}
    one_class = Interval(0.02, float("nan"), float("nan"), 1)
    assert "(the finish changes it by +2.0)" in choice_line(
        "finished", 1, candidates, "map_at_r", one_class, epochs=1
    )
    assert views_line("map_at_r", 1, one_class).endswith(
        "by +2.0 before training: embeddings are of the image alone"
    )


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("mode", ["frozen", "partial", "finetune"])
def test_a_start_that_is_kept_after_training_is_the_start(mode, squares, tmp_path, monkeypatch):
    monkeypatch.setattr("lookalike.training.selection.choose", lambda *_: "start")
    experiment = Experiment().override([*TOY_SETTINGS, f"train.mode={mode}", "train.head_lr=1"])
    trained = fit(squares, tmp_path / "trained", experiment)
    untrained = fit(squares, tmp_path / "untrained", experiment.override(["train.epochs=0"]))
    assert trained.result["selected"]["epoch"] == 0
    for key in ("model_fingerprint", "test", "test_start"):
        assert trained.result[key] == untrained.result[key]
    proxies = [load_tree(RunDir(run).state_path(PROXIES))["proxies"] for run in tmp_path.glob("*trained")]
    torch.testing.assert_close(*proxies)


def test_a_start_that_is_kept_is_explained_where_another_value_is_larger():
    candidates = {"start": {"map_at_r": 0.365}, "trained": {"map_at_r": 0.518}}
    assert choice_line("start", 0, candidates, "map_at_r", None, epochs=14) == (
        "validation map_at_r: start 36.5, trained 51.8; no gain over the untrained start is certain (95 % interval "
        "over validation classes), so it is kept"
    )
