"""How many views a run embeds with: chosen by validation classes, the same everywhere after that."""

import numpy as np
import pytest
import torch

from lookalike.config.experiment import Experiment
from lookalike.embedding import embed
from lookalike.errors import ArgumentError
from lookalike.evaluation import Interval
from lookalike.models.checkpoint import load_model
from lookalike.training import choose_views as module
from lookalike.training.choose_views import views_line
from lookalike.training.fit import fit
from lookalike.training.run_dir import RunDir
from toys import TOY_SETTINGS

MODES = ("frozen", "partial", "finetune")
pytestmark = pytest.mark.usefixtures("own_cache")


def toy(mode, *more):
    return Experiment().override([*TOY_SETTINGS, f"train.mode={mode}", *more])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("views", [1, 2])
def test_the_saved_model_embeds_with_the_views_that_were_measured(mode, views, squares, tmp_path):
    done = fit(squares, tmp_path / "run", toy(mode, f"model.views={views}", "train.epochs=1"))
    model, _ = load_model(tmp_path / "run")
    assert model.config.views == views == done.result["views"]
    again = embed(model, done.test).matrix
    np.testing.assert_allclose(again, done.final, rtol=1e-2, atol=1e-2 * np.abs(done.final).max())


@pytest.mark.parametrize("mode", MODES)
def test_pooled_views_average_to_what_a_run_embeds(mode, squares, tmp_path, monkeypatch):
    kept = {}

    def watch(context, trainable, inputs, views):
        found = original(context, trainable, inputs, views)
        kept.setdefault("views", found)
        return found

    original = module.pooled_by_view
    monkeypatch.setattr(module, "pooled_by_view", watch)
    fit(squares, tmp_path / "run", toy(mode, "model.views=2", "train.epochs=0"))
    one, mirrored = kept["views"]
    assert one.shape == mirrored.shape
    assert not torch.allclose(one, mirrored)


@pytest.mark.parametrize(("low", "chosen"), [(0.001, 2), (0.0, 1), (-0.01, 1)])
def test_two_views_must_gain_by_more_than_a_standard_error(low, chosen, squares, tmp_path, monkeypatch):
    gain = Interval(0.01, low, 0.02, 4)

    class Difference:
        difference = gain

    monkeypatch.setattr(module, "paired_difference", lambda *_, **__: Difference)
    fit(squares, tmp_path / "run", toy("frozen", "train.epochs=0"))
    assert load_model(tmp_path / "run")[0].config.views == chosen
    assert RunDir(tmp_path / "run").experiment().model.views == chosen  # a rerun does not choose again


def test_without_mirroring_in_training_there_is_one_view(squares, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "paired_difference", None)  # not called
    fit(squares, tmp_path / "run", toy("frozen", "train.epochs=0", "data.flip=false"))
    assert load_model(tmp_path / "run")[0].config.views == 1
    with pytest.raises(ArgumentError, match=r"model\.views=2 averages"):
        fit(squares, tmp_path / "other", toy("frozen", "data.flip=false", "model.views=2"))


def test_the_choice_is_reported_with_what_it_costs():
    assert views_line("map_at_r", 2, Interval(0.015, 0.01, 0.02, 15)) == (
        "averaging each image with its mirror image changes validation map_at_r by +1.0 to +2.0 before training: "
        "embeddings average both, which takes twice the time (not with `lookalike embed --views 1`)"
    )
    assert views_line("map_at_r", 1, Interval(0.0, -0.01, 0.01, 15)).endswith(
        "embeddings are of the image alone"
    )
