"""The two sides of the time-to-quality benchmark learn the same thing; no second is looked at."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from toys import TOY_SETTINGS

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def benchmark():
    pytest.importorskip("faiss")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)  # benchmarks are run from the checkout, not installed
        patch.delitem(sys.modules, "benchmarks", raising=False)
        yield importlib.import_module("benchmarks.time_to_quality")


class Numbered:
    """Three batches per epoch, numbered by epoch and place."""

    epoch = 1

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return 3

    def __iter__(self):
        return iter([[10 * self.epoch + place] for place in range(3)])


def test_batches_are_recorded_epoch_by_epoch(benchmark):
    batches = benchmark.RecordedBatches(Numbered())
    for epoch in (1, 2, 1):
        batches.set_epoch(epoch)
        assert list(batches) == [[10 * epoch], [10 * epoch + 1], [10 * epoch + 2]]
    assert batches.given[0] == batches.given[2] != batches.given[1]


def curve(benchmark, name, values, pace):
    result = benchmark.Curve(name)
    result.values = values
    result.seconds = [np.array([pace, pace / 2]) * number for number in range(1, len(values) + 1)]
    return result


def test_levels_lie_below_the_best_of_both(benchmark):
    mine = curve(benchmark, "ours", [0.2, 0.3, 0.25, 0.6], 1.0)
    theirs = curve(benchmark, "plain", [0.2, 0.3, 0.5], 4.0)
    lines = benchmark.level_table(mine, theirs).splitlines()
    assert len(lines) == 2 + 5  # not as many validations: no line for all epochs
    assert lines[2] == "| 27.50 | 25 % | 2.00 | 8.00 | 4.00 | 1.00 | 4.00 | 4.00 |"
    assert lines[4] == "| 42.50 | 75 % | 4.00 | 12.00 | 3.00 | 2.00 | 6.00 | 3.00 |"
    assert lines[6] == "| 50.00 | 100 % | 4.00 | 12.00 | 3.00 | 2.00 | 6.00 | 3.00 |"


def test_without_a_rise_only_the_end_is_compared(benchmark):
    mine, theirs = (curve(benchmark, name, [0.2, 0.1], 1.0) for name in ("ours", "plain"))
    lines = benchmark.level_table(mine, theirs).splitlines()
    assert lines[2] == "|  | all 1 epochs | 2.00 | 2.00 | 1.00 | 1.00 | 1.00 | 1.00 |"
    assert "no levels" in lines[3]


@pytest.mark.parametrize("name", ["proxy_anchor", "norm_softmax", "soft_triple"])
def test_both_sides_learn_the_same_on_frozen_features(benchmark, squares, own_cache, tmp_path, name, capsys):
    settings = [*TOY_SETTINGS, f"loss.name={name}", *benchmark.PEERS[name].settings, "train.epochs=3"]
    mine, theirs = benchmark.frozen(squares, settings, tmp_path, rounds=2)
    assert mine.steps == theirs.steps > 3
    np.testing.assert_allclose(mine.values, theirs.values, atol=1e-3)
    assert "the same batches in all 3 common epochs" in capsys.readouterr().out


def test_three_sides_learn_the_same_in_the_last_stages(benchmark, squares, own_cache, tmp_path):
    settings = [*TOY_SETTINGS, "train.frozen_stages=3", "train.epochs=2"]
    curves = benchmark.partial(squares, settings, tmp_path)
    assert [one.name for one in curves] == ["ours", "plain", "plain, cached"]
    for one in curves:
        assert len(one.values) == 3
        np.testing.assert_allclose(one.values, curves[0].values, atol=0.02)


def test_sides_that_differ_are_refused(benchmark):
    sides = [curve(benchmark, name, [0.2, 0.3], 1.0) for name in ("ours", "plain")]
    batches = [benchmark.RecordedBatches(Numbered()) for _ in sides]
    for side, given in zip(sides, batches, strict=True):
        side.first_loss = 2.0
        assert list(given)
    assert "0e+00 apart" in benchmark.check(*sides, *batches)
    sides[1].first_loss = 2.001
    with pytest.raises(AssertionError, match=r"losses, 2\.0 and 2\.001"):
        benchmark.check(*sides, *batches)
    batches[1].given[0] += 1
    with pytest.raises(AssertionError, match="batches differ"):
        benchmark.check(*sides, *batches)
