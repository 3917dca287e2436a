"""Settings: overriding, refusing, resolving, and the way to YAML and back."""

import pytest

from lookalike.config.experiment import (
    MODE_DEFAULTS,
    Experiment,
    load_experiment,
    setting_facts,
    setting_names,
)
from lookalike.errors import ArgumentError, FileError, UnknownNameError


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


@pytest.mark.parametrize(("gpu", "mode"), [(True, "finetune"), (False, "partial")])
def test_resolving_fills_what_depends_on_the_device(gpu, mode):
    train = Experiment().resolve(gpu=gpu, short_side=500, backbone_size=224, images=5000).train
    assert train.mode == mode
    assert train.epochs == MODE_DEFAULTS[mode]["epochs"]
    assert None not in (train.lr, train.head_lr, train.proxy_lr, train.precision)


def test_resolving_keeps_what_was_set():
    experiment = Experiment().override(["train.mode=frozen", "train.epochs=7", "data.image_size=64"])
    resolved = experiment.resolve(gpu=False, short_side=500, backbone_size=224, images=5000)
    assert (resolved.train.mode, resolved.train.epochs, resolved.data.image_size) == ("frozen", 7, 64)


@pytest.mark.parametrize(
    ("gpu", "image", "size"),
    [
        (False, 112, 192),
        (True, 112, 224),
        (True, 3000, 224),
        (False, 3000, 192),
        (True, 50, 96),
        (False, 9, 32),
    ],
)
def test_input_size_is_near_the_backbones_and_at_most_twice_the_images(gpu, image, size):
    resolved = Experiment().resolve(gpu=gpu, short_side=image, backbone_size=224, images=5000)
    assert resolved.data.image_size == resolved.data.resize == size


def test_learning_rates_fall_to_zero_by_default():
    assert Experiment().train.schedule.name == "cosine"


@pytest.mark.parametrize(("images", "dim"), [(5000, 512), (1024, 512), (40, 16), (4, 2)])
def test_embeddings_are_no_wider_than_few_images_can_span(images, dim):
    assert (
        Experiment().resolve(gpu=False, short_side=64, backbone_size=224, images=images).model.embedding_dim
        == dim
    )


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
    for name, default, _ in setting_facts():
        if default is not None and not isinstance(default, tuple):
            Experiment().override([f"{name}={default}"])
    assert len(set(setting_names())) == len(setting_names())
