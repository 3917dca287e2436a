"""Settings: overriding, refusing, resolving, and the way to YAML and back."""

from contextlib import suppress

import pytest
import torch

from lookalike.config.experiment import (
    Experiment,
    load_experiment,
)
from lookalike.config.setting_facts import setting_facts
from lookalike.errors import ArgumentError, FileError, LookalikeError, UnknownNameError
from lookalike.losses import LOSSES
from lookalike.losses.table import arguments_of
from lookalike.training.setup import build_loss


def test_override_sets_values_of_the_right_type():
    experiment = Experiment().override(["train.lr=1e-3", "train.mode=frozen", "loss.scale=16", "seed=3"])
    assert experiment.train.lr == 1e-3
    assert experiment.train.mode == "frozen"
    assert experiment.loss.arguments == {"scale": 16}
    assert experiment.seed == 3
    assert Experiment().seed == 0


@pytest.mark.parametrize("text", ["1e-2", "1.0e-2", "0.01"])
def test_numbers_may_be_written_in_any_way(text):
    assert Experiment().override([f"loss.margin={text}"]).loss.arguments == {"margin": 0.01}


def test_another_loss_does_not_inherit_arguments():
    experiment = Experiment().override(["loss.scale=16", "loss.name=proxy_nca_pp"])
    assert experiment.loss.arguments == {}


@pytest.mark.parametrize(
    ("assignment", "hint"),
    [
        ("train.learning_rte=1", "train"),
        ("train.epoch=1", "train.epochs"),
        ("trian.epochs=1", "train.epochs"),
        ("batch.sise=3", "batch.size"),
    ],
)
def test_unknown_settings_are_refused_with_the_near_miss(assignment, hint):
    with pytest.raises(UnknownNameError, match=hint):
        Experiment().override([assignment])


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("train.lr=fast", "train.lr is 'fast'"),
        ("train.lr=0", "greater than 0"),
        ("train.mode=slow", "frozen"),
        ("data.validation_fraction=1.5", "less than 1"),
        ("train.epochs", "NAME=VALUE"),
    ],
)
def test_impossible_values_are_refused_in_words(assignment, message):
    with pytest.raises(ArgumentError, match=message):
        Experiment().override([assignment])


def test_loss_arguments_are_checked_against_the_loss():
    with pytest.raises(UnknownNameError, match="did you mean 'scale'"):
        Experiment().override(["loss.scal=16"]).check()
    with pytest.raises(UnknownNameError, match="did you mean 'proxy_anchor'"):
        Experiment().override(["loss.name=proxy_ancor"]).check()


def test_two_kinds_of_clipping_exclude_each_other():
    with pytest.raises(ArgumentError, match="exclude each other"):
        Experiment().override(["train.clip_value=1", "train.clip_norm=1"])


def test_yaml_round_trip(tmp_path):
    experiment = Experiment().override(
        ["loss.scale=16", "train.schedule.name=step", "train.schedule.milestones=[3, 5]"]
    )
    experiment.save(tmp_path / "e.yaml")
    assert load_experiment(tmp_path / "e.yaml") == experiment


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("train: {lr: 1, rate: 2}", UnknownNameError, "train.rate"),
        ("loss: {name: proxy_anchor, alpha: 2}", UnknownNameError, "alpha"),
        ("- 1", ArgumentError, "not an experiment"),
        ("a: [", FileError, "cannot read the experiment"),
    ],
)
def test_files_that_are_no_experiment_are_refused(tmp_path, text, error, message):
    (tmp_path / "e.yaml").write_text(text)
    with pytest.raises(error, match=message):
        load_experiment(tmp_path / "e.yaml")


def test_every_setting_has_a_name_that_override_knows():
    for name, default, _ in setting_facts(Experiment):
        if default is not None and not isinstance(default, tuple):
            Experiment().override([f"{name}={default}"])
    names = [name for name, _, _ in setting_facts(Experiment)]
    assert len(set(names)) == len(names)


def every_setting():
    return [(name, default, text) for name, default, text in setting_facts(Experiment)]


@pytest.mark.parametrize(("name", "default", "text"), every_setting(), ids=[f[0] for f in every_setting()])
def test_a_setting_without_value_says_what_that_means(name, default, text):
    assert default is not None or "None: " in text


def loss_settings():
    return [(loss, name) for loss, kind in LOSSES.items() for name in arguments_of(kind)]


REQUIRED = {"pml": ["loss.loss_class=TripletMarginLoss"]}
"""Settings without which a loss cannot be built."""
WRONG = ("abc", "[1]", "{a: 1}", "null", "true", ".nan", ".inf", "1.5")


@pytest.mark.parametrize(("loss", "name"), loss_settings(), ids=[".".join(pair) for pair in loss_settings()])
def test_every_setting_of_a_loss_is_checked_for_its_type(loss, name):
    """Each value is either refused with the setting's name, or is one that the loss's own class accepts or refuses."""
    messages = []
    for text in WRONG:
        try:
            required = REQUIRED.get(loss, [])
            settings = [f"loss.name={loss}", *required, f"loss.{name}={text}"]
            checked = Experiment().override(settings).check()
        except LookalikeError as error:
            messages.append(str(error))
            continue
        with suppress(LookalikeError):
            build_loss(checked, 6, 8, channels=4, generator=torch.Generator())
    assert messages
    assert all(name in message or loss in message for message in messages)


def test_numbers_in_a_file_may_be_written_as_yaml_words(tmp_path):
    base = "{name: proxy_anchor, settings: {margin: 1e-1}}"
    (tmp_path / "e.yaml").write_text(
        f"loss: {{name: sampled, fraction: 5e-1, base: {base}}}\ntrain: {{lr: 1e-3}}"
    )
    experiment = load_experiment(tmp_path / "e.yaml")
    base = {"name": "proxy_anchor", "settings": {"margin": 0.1}}
    assert experiment.loss.arguments == {"fraction": 0.5, "base": base}
    assert experiment.train.lr == 1e-3


@pytest.mark.parametrize("version", [0, 1, 99, "x"])
def test_files_of_another_version_are_refused(version, tmp_path):
    (tmp_path / "e.yaml").write_text(f"version: {version}\nseed: 1\n")
    with pytest.raises(FileError, match=f"format version {version}, this lookalike reads"):
        load_experiment(tmp_path / "e.yaml")


@pytest.mark.parametrize(
    "assignment",
    [
        "data.crop_scale=[0.5, 0.1]",
        "data.crop_scale=[0, 1]",
        "data.crop_scale=[0.5, 2]",
        "seed=-1",
        "train.head_lr=.inf",
        "train.lr=.nan",
        "train.metric=nmi",
    ],
)
def test_values_that_would_fail_later_are_refused_at_once(assignment):
    with pytest.raises(ArgumentError, match=assignment.partition("=")[0]):
        Experiment().override([assignment])


def test_half_precision_with_a_scaler_needs_a_gpu():
    experiment = Experiment().override(["train.precision=16-mixed"])
    assert experiment.check("cuda").train.precision == "16-mixed"
    with pytest.raises(ArgumentError, match=r"train\.precision=16-mixed needs a GPU"):
        experiment.check("cpu")


@pytest.mark.parametrize("name", ["sampled", "proxy_synthesis", "hierarchical"])
def test_what_a_loss_draws_follows_the_seed_of_the_experiment(name):
    experiment = Experiment().override([f"loss.name={name}", "seed=7"])
    assert build_loss(experiment, 400, 8, channels=4, generator=torch.Generator()).seed == 7
    with pytest.raises(UnknownNameError, match="no setting 'seed'"):
        experiment.override(["loss.seed=3"]).check()


@pytest.mark.parametrize(
    ("value", "labels"),
    [
        ("[-1]", ("-1",)),
        ("-1", ("-1",)),
        ("['-1']", ("-1",)),
        ("[junk, 7]", ("junk", "7")),
        ("nan", ("nan",)),
        ("[]", ()),
    ],
)
def test_labels_to_ignore_are_texts_however_they_are_written(value, labels):
    assert Experiment().override([f"data.ignore_labels={value}"]).data.ignore_labels == labels


@pytest.mark.parametrize(("text", "value"), [("1e-1", 0.1), ("-2.5E+3", -2500.0), (".5e1", 5.0)])
def test_numbers_with_an_exponent_are_numbers_though_yaml_takes_them_for_words(text, value):
    loss = Experiment().override([f"loss.scale={text}"]).loss
    assert loss.arguments["scale"] == value


@pytest.mark.parametrize("text", ["nan", "inf", "infinity", "1_000"])
def test_words_that_python_takes_for_numbers_stay_words(text):
    assert Experiment().override([f"model.weights='{text}'"]).model.weights == text
