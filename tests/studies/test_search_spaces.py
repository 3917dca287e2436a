"""Search spaces: every loss has one or says that it has none, and is built at both ends of each range."""

import numpy as np
import pytest

from lookalike.config.experiment import Experiment
from lookalike.config.schema import LossSettings
from lookalike.errors import ArgumentError
from lookalike.losses import LOSSES
from lookalike.losses.search_range import SearchRange
from lookalike.studies.protocols.search_spaces import Searched, search_space, with_values

BASES = ("proxy_anchor", "proxy_nca", "proxy_nca_pp", "norm_softmax", "soft_triple", "proxy_gml")


HIERARCHIES = [
    {"name": "hierarchical", "base": {"name": base, "settings": {}}, **more}
    for base in BASES
    for more in ({"coarse": [4]}, {"parents": "given"})
]


def searched_losses():
    """Every loss that has a search space, and HPL over every base."""
    found = [{"name": name} for name in LOSSES]
    return [loss for loss in found + HIERARCHIES if _has_space(loss)]


def _has_space(loss):
    try:
        return bool(search_space(Experiment(loss=LossSettings(**loss)), 20))
    except ArgumentError:
        return False


def test_a_loss_without_a_search_space_is_refused():
    with pytest.raises(ArgumentError, match="the loss 'horde' has no search space"):
        search_space(Experiment(loss=LossSettings(name="horde")), 20)


@pytest.mark.parametrize("loss", searched_losses(), ids=str)
def test_a_loss_is_built_at_both_ends_of_each_of_its_ranges_or_says_what_it_cannot_be(loss):
    """The end of a range may be a value that a loss refuses; then with an error that a search records."""
    experiment = Experiment(loss=LossSettings(**loss))
    space = search_space(experiment, 20)
    middle = {one.setting: one.value((one.range.low + one.range.high) / 2) for one in space}
    for one in space:
        for end in (one.range.low, one.range.high):
            found = with_values(experiment, middle | {one.setting: one.value(end)})
            build_toy_loss(found)


def build_toy_loss(experiment):
    arguments = experiment.loss.arguments
    if arguments.get("parents") == "given":
        arguments["parents"] = [np.arange(20) // 5]
    return LOSSES[experiment.loss.name](20, 4, **arguments)


def test_a_hierarchy_is_searched_on_every_level():
    loss = LossSettings(name="hierarchical", base={"name": "proxy_anchor"}, coarse=[4], update_every=5)
    experiment = Experiment(loss=loss)
    places = [one.setting for one in search_space(experiment, 98)]
    levels = [f"loss.level_settings.{level}.{name}" for level in (0, 1) for name in ("scale", "margin")]
    assert places == ["train.proxy_lr", "loss.coarse.0", "loss.update_every", *levels]
    values = dict.fromkeys(levels, 0.5) | {"loss.coarse.0": 7, "train.proxy_lr": 0.1}
    found = with_values(experiment, values)
    assert found.loss.arguments["coarse"] == [7]
    assert found.loss.arguments["level_settings"] == [{"scale": 0.5, "margin": 0.5}] * 2
    assert found.train.proxy_lr == 0.1


def test_a_scale_is_searched_as_the_inverse_of_a_temperature():
    place = Searched("loss.temperature", SearchRange("temperature", 0.01, 100, inverse=True))
    assert place.value(8.0) == 0.125
