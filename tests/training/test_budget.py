"""The plan for a time budget, by hand."""

from dataclasses import replace

import pytest

from lookalike.training.budget import (
    Candidate,
    Costs,
    Counts,
    PerImage,
    Plan,
    candidates,
    estimate,
    line_through,
    most_epochs,
    plan_run,
)

ONE_PIXEL = PerImage(0.0, 1e-6)
COSTS = Costs(
    decode=0.001,
    frozen=ONE_PIXEL,
    forward=ONE_PIXEL,
    step=PerImage(0.002, 1e-6),
    projection=0.0005,
    closed_form=5.0,
)
COUNTS = Counts(train=800, validation=200, test=500)


def test_two_measurements_give_a_line_in_the_number_of_pixels():
    cost = line_through((100, 0.03), (200, 0.06))
    assert cost(100) == pytest.approx(0.03)
    assert cost(200) == pytest.approx(0.06)
    assert cost.fixed == pytest.approx(0.02)
    assert cost(300) == pytest.approx(0.02 + 9 * 0.01)


def test_measurements_that_fall_with_the_size_give_no_negative_cost():
    cost = line_through((100, 0.05), (200, 0.03))
    assert cost.per_pixel == 0
    assert cost(32) == pytest.approx(0.03) or cost(32) == pytest.approx(0.05)
    steep = line_through((100, 0.0), (200, 0.03))
    assert steep.fixed == 0


def test_phases_of_partial_training_by_hand():
    # at 100 px: first stages 0.01 s, others forward 0.01 s, a training step 0.012 s per image; two views
    seconds = estimate(Candidate("partial", 100, 6), COSTS, COUNTS)
    assert seconds == pytest.approx(
        {
            "caching": 1000 * (0.001 + 2 * 0.01),
            "start": 1000 * 2 * 0.01 + 10,
            "training": 6 * 800 * 0.012,
            "validation": 6 * 200 * 2 * 0.01,
            "finish": 1000 * 2 * 0.01 + 5,
            "test": 500 * (0.001 + 2 * 0.03),
        }
    )


def test_phases_of_mode_frozen_without_training():
    seconds = estimate(Candidate("frozen", 100, 0), COSTS, COUNTS, views=1)
    assert set(seconds) == {"caching", "start", "test"}
    assert seconds["caching"] == pytest.approx(1000 * 0.021)
    assert seconds["start"] == pytest.approx(10)


def test_training_in_mode_frozen_is_a_step_of_the_projection_on_cached_features():
    seconds = estimate(Candidate("frozen", 100, 30), COSTS, COUNTS, views=1)
    assert seconds["training"] == pytest.approx(30 * 800 * 0.0005)
    assert seconds["finish"] == pytest.approx(5)
    assert "validation" not in seconds


def test_finetuning_decodes_in_every_pass_and_caches_nothing():
    seconds = estimate(Candidate("finetune", 100, 2), COSTS, COUNTS, views=1)
    assert "caching" not in seconds
    assert seconds["training"] == pytest.approx(2 * 800 * 0.013)
    assert seconds["validation"] == pytest.approx(2 * 200 * 0.011)


def test_images_that_are_decoded_ahead_cost_the_longer_of_decoding_and_network():
    ahead = replace(COSTS, decode=0.5, decodes_ahead=True)
    seconds = estimate(Candidate("finetune", 100, 2), ahead, COUNTS, views=1)
    assert seconds["training"] == pytest.approx(2 * 800 * 0.5)
    quick = estimate(Candidate("finetune", 100, 2), replace(ahead, decode=0.001), COUNTS, views=1)
    assert quick["training"] == pytest.approx(2 * 800 * 0.012)
    assert quick["test"] == pytest.approx(500 * 0.03)


@pytest.mark.parametrize("mode", ["frozen", "partial", "finetune"])
@pytest.mark.parametrize(("backbone_size", "short_side"), [(224, 112), (224, 60), (224, 4000), (64, 20)])
def test_every_candidate_costs_more_than_the_one_before(mode, backbone_size, short_side):
    found = candidates(mode, epochs=20, backbone_size=backbone_size, short_side=short_side)
    costs = [
        sum(estimate(option, COSTS, COUNTS).values()) for option in found if option.mode == found[-1].mode
    ]
    assert costs == sorted(costs)
    assert len(found) == len(set(found))
    assert max(option.image_size for option in found) <= min(backbone_size, max(32, 2 * short_side + 16))


def test_sizes_go_from_four_sevenths_of_the_backbones_own_to_all_of_it():
    found = candidates("partial", epochs=4, backbone_size=224, short_side=112)
    assert [option.image_size for option in found if option.mode == "frozen"] == [
        128,
        144,
        160,
        176,
        192,
        208,
        224,
    ]
    assert found[-1] == Candidate("partial", 224, 4)
    assert most_epochs("partial", 4) == 16


CANDIDATES = [Candidate("frozen", 100, 30), Candidate("partial", 100, 4), Candidate("partial", 200, 6)]


@pytest.mark.parametrize(("minutes", "chosen"), [(0.1, 0), (1.5, 0), (3, 1), (13, 2), (1e9, 2)])
def test_the_last_candidate_that_fits_is_chosen_and_else_the_quickest(minutes, chosen):
    assert plan_run(CANDIDATES, COSTS, COUNTS, minutes=minutes).settings == CANDIDATES[chosen]


def test_minutes_that_the_next_candidate_would_exceed_go_into_more_epochs():
    minutes = {
        epochs: Plan(option, estimate(option, COSTS, COUNTS)).minutes
        for epochs in range(4, 9)
        for option in [Candidate("partial", 100, epochs)]
    }
    for epochs, needed in minutes.items():
        plan = plan_run(CANDIDATES, COSTS, COUNTS, minutes=needed + 1e-9, most=7)
        assert plan.settings == Candidate("partial", 100, min(epochs, 7))
    assert plan_run(CANDIDATES, COSTS, COUNTS, minutes=minutes[8]).settings.epochs == 4


def test_the_projection_alone_gets_no_more_epochs():
    assert plan_run(CANDIDATES[:1], COSTS, COUNTS, minutes=1e9, most=7).settings == CANDIDATES[0]


@pytest.mark.parametrize("factor", [1.5, 2, 4])
def test_more_time_never_gives_an_earlier_candidate(factor):
    for tenths in range(1, 100):
        less, more = (
            plan_run(CANDIDATES, COSTS, COUNTS, minutes=tenths / 10 * by).settings for by in (1, factor)
        )
        assert CANDIDATES.index(more) >= CANDIDATES.index(less)
