"""What is left of a row on another network, in another mode, at toy size."""

import pytest

from lookalike.config.defaults import MODE_DEFAULTS
from lookalike.errors import ArgumentError, UnknownNameError
from lookalike.studies import find_study
from lookalike.studies.adapt import Adaptation

ABLATION = find_study("proxynca_pp/table7")
FROZEN = MODE_DEFAULTS["frozen"]


def test_without_changes_a_row_is_the_papers(squares):
    row = ABLATION.row("full")
    assert Adaptation().comparable
    same = Adaptation().apply(row, squares, seed=3)
    assert same.model_dump() | {"seed": 0, "batch": 0} == row.experiment().model_dump() | {
        "seed": 0,
        "batch": 0,
    }
    assert same.seed == 3


@pytest.mark.parametrize(
    ("study", "row", "rate"),
    [
        ("proxynca_pp/table7", "full", FROZEN["proxy_lr"]),
        ("proxynca_pp/table7", "-fast", FROZEN["head_lr"]),
        ("proxynca_pp/figure4", "proxy_lr-40", max(FROZEN["head_lr"], FROZEN["proxy_lr"] / 10)),
        ("proxynca_pp/figure4", "proxy_lr-4000", FROZEN["proxy_lr"] * 10),
        ("proxynca_pp/table3", "proxynca-2048", FROZEN["head_lr"]),
    ],
)
def test_in_another_mode_proxies_stay_as_fast_next_to_their_recipe(squares, study, row, rate):
    found = Adaptation(mode="frozen").apply(find_study(study).row(row), squares, seed=0)
    assert found.train.proxy_lr == pytest.approx(rate)
    assert (found.train.mode, found.train.compat.eps, found.train.schedule.name) == ("frozen", 1e-8, "cosine")
    assert found.train.epochs is None


def test_what_the_row_is_about_stays(squares):
    found = Adaptation(mode="frozen", backbone="tf_efficientnet_lite0").apply(
        ABLATION.row("-max"), squares, 0
    )
    assert (found.model.backbone, found.model.weights) == ("tf_efficientnet_lite0", "auto")
    assert (found.model.pooling, found.model.norm, found.batch.sampler) == (
        "average",
        "layer_norm",
        "balanced",
    )
    assert found.data.image_size is None
    assert found.model.start == "random"


def test_balanced_batches_fit_the_data(squares):
    assert Adaptation().apply(ABLATION.row("full"), squares, 0).batch.classes == squares.num_classes // 4


def test_feature_map_losses_refuse_frozen_mode_and_smoke_takes_partial(squares):
    row = find_study("proxynca_pp/table3").row("horde-512")
    with pytest.raises(ArgumentError, match="reads feature maps"):
        Adaptation(mode="frozen").apply(row, squares, 0)
    assert Adaptation(smoke=True).apply(row, squares, 0).train.mode == "partial"


def test_a_row_without_a_projection_has_none_on_another_network(squares):
    row = find_study("proxynca_pp/table11").row("untrained-avg")
    found = Adaptation(backbone="tf_efficientnet_lite0").apply(row, squares, 0)
    assert found.model.start == "none"
    assert found.train.epochs == 0


def test_unknown_settings_are_refused(squares):
    with pytest.raises(UnknownNameError, match=r"did you mean 'train\.epochs'"):
        Adaptation(settings=("train.epoch=1",)).apply(ABLATION.row("full"), squares, 0)
    with pytest.raises(UnknownNameError, match="has no setting 'scale'"):
        Adaptation(settings=("loss.scale=1.0",)).apply(ABLATION.row("full"), squares, 0)


def test_every_change_is_said():
    changes = Adaptation("resnet18", "partial", ("loss.scale=16.0",))
    assert changes.describe() == "network resnet18, mode partial, loss.scale=16.0"
    one, other = (Adaptation(settings=pair) for pair in (("b=2", "a=1"), ("a=3", "a=1", "b=2")))
    assert one.describe() == other.describe() == "a=1 b=2", "of one setting the last counts; order does not"
    assert not changes.comparable
