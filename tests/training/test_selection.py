"""Which candidate a run keeps."""

import pytest

from lookalike.evaluation import Interval
from lookalike.training.choose_views import views_line
from lookalike.training.selection import choose
from lookalike.training.summary import choice_line


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
        ({"start": 0.2, "trained": 0.21, "finished": 0.19}, gain(-0.05, 0.01), "trained"),
        ({"start": 0.2, "finished": 0.3}, gain(0.05, 0.15), "finished"),
        ({"start": 0.2, "finished": 0.2}, gain(0.0, 0.0), "start"),
    ],
)
def test_the_finish_stands_unless_clearly_worse_and_nothing_replaces_a_better_start(values, interval, kept):
    candidates = {name: {"map_at_r": value} for name, value in values.items()}
    assert choose(candidates, "map_at_r", interval) == kept


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
