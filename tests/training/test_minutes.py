"""Settings for a number of minutes: what is planned, what stays as it was set, and what a rerun reads."""

import pytest
import torch

from lookalike.config.experiment import Experiment
from lookalike.errors import ArgumentError
from lookalike.training.budget import Candidate, Costs, PerImage, Plan
from lookalike.training.context import RunOptions
from lookalike.training.costs import Seconds, decoders, measure_costs
from lookalike.training.fit import fit
from lookalike.training.minutes import allowed, plan_lines
from lookalike.training.run_dir import RunDir
from lookalike.utils.progress import Progress
from toys import TOY_SETTINGS

MODES = ("frozen", "partial", "finetune")
CANDIDATES = [
    Candidate("frozen", 128, 30),
    Candidate("frozen", 224, 30),
    Candidate("partial", 128, 4),
    Candidate("partial", 224, 6),
]
pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        ([], CANDIDATES),
        (["train.mode=partial"], CANDIDATES[2:]),
        (
            ["data.image_size=96"],
            [Candidate("frozen", 96, 30), Candidate("partial", 96, 4), Candidate("partial", 96, 6)],
        ),
        (
            ["train.epochs=3"],
            [Candidate(mode, size, 3) for mode in ("frozen", "partial") for size in (128, 224)],
        ),
        (["train.epochs=0"], [Candidate("frozen", 128, 0), Candidate("frozen", 224, 0)]),
        (
            ["train.mode=partial", "train.epochs=0"],
            [Candidate("partial", 128, 0), Candidate("partial", 224, 0)],
        ),
        (["train.mode=frozen", "train.epochs=9"], [Candidate("frozen", 128, 9), Candidate("frozen", 224, 9)]),
        (["train.epochs=3", "data.image_size=96"], [Candidate("frozen", 96, 3), Candidate("partial", 96, 3)]),
    ],
)
def test_what_somebody_chose_is_not_planned(settings, left):
    assert allowed(CANDIDATES, Experiment().override(settings)) == left


@pytest.mark.parametrize("mode", MODES)
def test_costs_are_measured_for_every_mode(mode, squares):
    settings = Experiment().override(TOY_SETTINGS)
    costs = measure_costs(settings, mode, squares, (32, 64), torch.device("cpu"))
    assert isinstance(costs, Costs)
    assert costs.decode > 0
    assert (costs.frozen(64) > 0) == (mode != "finetune")
    assert 0 < costs.forward(64) < costs.step(64)
    assert costs.projection > 0
    assert costs.closed_form > 0


def test_each_size_is_measured_with_the_same_number_of_pixels(squares, monkeypatch):
    pixels = {}

    def recorded(_part, size, count, *_):
        pixels[size] = count * size * size
        return Seconds(1.0, 1.0, 1.0)

    monkeypatch.setattr("lookalike.training.costs._at_size", recorded)
    settings = Experiment().override(TOY_SETTINGS)
    measure_costs(settings, "partial", squares, (32, 64), torch.device("cpu"))
    assert pixels[32] == pixels[64] > 0


@pytest.mark.parametrize(("precision", "mixed"), [("32-true", False), ("bf16-mixed", True)])
def test_a_step_is_measured_in_the_precision_of_training_and_the_rest_in_that_of_embedding(
    precision, mixed, squares, monkeypatch
):
    seen = []

    def once(call, *_):
        seen.append(torch.is_autocast_enabled("cpu"))
        call()
        return 1.0

    monkeypatch.setattr("lookalike.training.costs._seconds", once)
    experiment = Experiment().override([*TOY_SETTINGS, f"train.precision={precision}"])
    measure_costs(experiment, "frozen", squares, (32, 64), torch.device("cpu"))
    frozen, forward, step = seen[:3]
    assert (frozen, forward, step) == (False, False, mixed)


@pytest.mark.parametrize(
    ("device", "workers", "seconds", "found"),
    [
        ("cuda", None, 0.02, (3, True)),  # one process less than CPUs
        ("cuda", 2, 0.02, (2, True)),
        ("cuda", 9, 0.02, (4, True)),  # nine processes share four CPUs
        ("cuda", 0, 0.02, (4, False)),  # threads take turns with the network
        ("cpu", None, 0.02, (4, False)),
        ("cpu", None, 0.0001, (1, False)),  # small images are decoded one by one
        ("cpu", 2, 0.02, (2, False)),  # processes take CPUs away from the network
    ],
)
def test_images_are_counted_as_decoded_by_as_many_as_will_decode_them(
    device, workers, seconds, found, monkeypatch
):
    for module in ("data.dataloader", "training.costs"):
        monkeypatch.setattr(f"lookalike.{module}.available_cpus", lambda: 4)
    monkeypatch.setattr("lookalike.training.costs.thread_count", lambda: 4)
    assert decoders(workers, torch.device(device), seconds) == found


class Said(Progress):
    """Keeps what it reports."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def say(self, text: str) -> None:
        self.texts.append(text)


@pytest.mark.parametrize("mode", MODES)
def test_a_run_of_many_images_says_how_long_it_takes_and_its_numbers_stay(
    mode, squares, tmp_path, monkeypatch
):
    settings = Experiment().override([*TOY_SETTINGS, f"train.mode={mode}", "train.epochs=1"])
    few = fit(squares, tmp_path / "few", settings)
    monkeypatch.setattr("lookalike.training.minutes.WORTH_ESTIMATING", 1)
    said = Said()
    many = fit(squares, tmp_path / "many", settings, options=RunOptions(progress=said))
    assert any(
        text.startswith("about ") and text.endswith("--minutes N plans for another time")
        for text in said.texts
    )
    assert many.result["model_fingerprint"] == few.result["model_fingerprint"]


def test_a_planned_run_says_its_plan_and_leaves_settings_that_need_no_clock(squares, tmp_path, monkeypatch):
    cheap = PerImage(0.0, 1e-9)
    monkeypatch.setattr(
        "lookalike.training.minutes.measure_costs", lambda *_: Costs(0.0, cheap, cheap, cheap, 0.0, 0.0)
    )
    settings = Experiment().override([*TOY_SETTINGS, "train.epochs=1", "train.mode=partial"])
    said = Said()
    fit(squares, tmp_path / "run", settings, minutes=1, options=RunOptions(progress=said))
    assert said.texts[0].startswith("plan for 1 minutes: mode partial at ")
    planned = RunDir(tmp_path / "run").experiment()
    assert (planned.train.mode, planned.train.epochs) == ("partial", 1)
    again = fit(squares, tmp_path / "again", planned)
    assert (
        again.result["model_fingerprint"]
        == RunDir(tmp_path / "run").read_json("result.json")["model_fingerprint"]
    )


def test_minutes_plan_a_new_run_in_one_process(squares, tmp_path):
    with pytest.raises(ArgumentError, match="minutes"):
        fit(squares, tmp_path / "run", minutes=0)
    with pytest.raises(ArgumentError, match="one process"):
        fit(squares, tmp_path / "run", minutes=5, options=RunOptions(devices=2))


def test_the_plan_says_what_it_takes_and_what_twice_the_time_would_change():
    plan = Plan(Candidate("partial", 192, 6), {"caching": 90.0, "training": 240.0})
    doubled = Plan(Candidate("partial", 224, 10), {"training": 660.0})
    assert plan_lines(plan, doubled, minutes=6) == (
        "plan for 6 minutes: mode partial at 192 px, 6 epochs; about 5.5 minutes (caching 1.5, "
        "training 4.0)\n"
        "twice the time: mode partial at 224 px, 10 epochs; about 11.0 minutes"
    )
    assert plan_lines(plan, plan, minutes=6).endswith("twice the time would change nothing")
    assert "even the quickest settings take about 5.5 minutes" in plan_lines(plan, plan, minutes=2)
    frozen = Plan(Candidate("frozen", 224, 30), {"caching": 90.0})
    assert plan_lines(frozen, frozen, minutes=2, to_train=6.25).endswith(
        "twice the time would change nothing\nthe quickest settings that train the network too take about 6.2 minutes"
    )
    assert "train the network" not in plan_lines(frozen, plan, minutes=2, to_train=5.5)
