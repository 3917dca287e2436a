"""Losses that plan their batches, in the training loop: clusters and trees of the present network, and resumed runs."""

import numpy as np
import pytest

from lookalike.config.experiment import Experiment
from lookalike.errors import ArgumentError
from lookalike.training.context import RunOptions
from lookalike.training.fit import fit
from lookalike.training.tensor_tree import load_tree
from lookalike.utils.progress import Progress
from toys import TOY_SETTINGS

pytestmark = pytest.mark.usefixtures("own_cache")
PLANNERS = {
    "divide_and_conquer": ["loss.learners=2", "loss.every=2"],
    "divide_and_conquer of embeddings": ["loss.learners=2", "loss.cluster_pooled=false", "loss.base=margin"],
    "hierarchical_triplet": ["loss.neighborhood=2", "loss.every=2"],
}


def toy(case, *more):
    shape = ["batch.classes=4", "batch.per_class=3"]
    return Experiment().override(
        [*TOY_SETTINGS, *shape, "train.epochs=4", f"loss.name={case.split()[0]}", *PLANNERS[case], *more]
    )


class StopAfter(Progress):
    """Interrupts, as Ctrl-C would, when epoch `epoch` has been told."""

    def __init__(self, epoch):
        self.words = f"epoch {epoch:>3}:"

    def say(self, text):
        if text.startswith(self.words):
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("case", "mode"), [*((case, "frozen") for case in PLANNERS), ("divide_and_conquer", "finetune")]
)
def test_a_run_that_is_interrupted_between_two_looks_goes_on_to_the_same_numbers(
    case, mode, squares, tmp_path
):
    settings = toy(case, f"train.mode={mode}")
    whole = fit(squares, tmp_path / "whole", settings)
    with pytest.raises(KeyboardInterrupt):
        fit(squares, tmp_path / "halted", settings, options=RunOptions(progress=StopAfter(1)))
    resumed = fit(squares, tmp_path / "halted", resume=True)
    np.testing.assert_array_equal(resumed.final, whole.final)
    one, other = (load_tree(tmp_path / name / "training_state" / "select") for name in ("whole", "halted"))
    losses = [r["loss"] for r in one["history"]]
    assert losses == [r["loss"] for r in other["history"]]
    assert all(loss > 0 for loss in losses[1:])


def test_batches_that_cannot_be_filled_are_refused_before_anything_is_written(squares, tmp_path):
    with pytest.raises(ArgumentError, match=r"batch\.classes is 3; .* neighborhoods of 2 classes"):
        fit(squares, tmp_path / "run", toy("hierarchical_triplet", "batch.classes=3"))
    assert not (tmp_path / "run").exists()
