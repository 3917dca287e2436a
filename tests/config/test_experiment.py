"""Settings: overriding, refusing, resolving, and the way to YAML and back."""

from contextlib import suppress

import pytest
import torch

from lookalike.config.defaults import MODE_DEFAULTS, default_epochs
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


@pytest.mark.parametrize(("gpu", "mode"), [(True, "finetune"), (False, "partial")])
def test_resolving_fills_what_depends_on_the_device(gpu, mode):
    train = Experiment().resolve(gpu=gpu, short_side=500, backbone_size=224, images=5000).train
    assert train.mode == mode
    assert train.epochs == MODE_DEFAULTS[mode]["epochs"]
    assert None not in (train.lr, train.head_lr, train.proxy_lr, train.precision)


@pytest.mark.parametrize(("chosen", "precision"), [(None, "16-mixed"), ("bf16-mixed", "bf16-mixed")])
def test_the_precision_is_the_device_s_unless_somebody_chose_one(chosen, precision):
    experiment = Experiment().override([f"train.precision={chosen}"] if chosen else [])
    sizes = {"short_side": 500, "backbone_size": 224, "images": 5000}
    assert experiment.resolve(gpu=True, precision="16-mixed", **sizes).train.precision == precision


@pytest.mark.parametrize(
    ("images", "epochs"), [(10, 12), (300, 12), (1080, 12), (1800, 8), (3375, 4), (6802, 4), (100_000, 4)]
)
def test_few_images_train_for_more_epochs(images, epochs):
    resolved = Experiment().resolve(gpu=False, short_side=500, backbone_size=224, images=images)
    assert resolved.train.epochs == epochs
    assert default_epochs("finetune", images=images, batch=90) == MODE_DEFAULTS["finetune"]["epochs"]


def test_epochs_are_counted_in_the_batches_of_the_sampler():
    """5,400 images are 60 batches of 90, and 170 of 8 classes x 4 images."""
    balanced = Experiment().override(["batch.sampler=balanced"])
    assert default_epochs("partial", images=5400, batch=90) == 4
    assert default_epochs("partial", images=1080, batch=90) == 12
    assert default_epochs("partial", images=1080, batch=balanced.batch.images) == 5


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


NEVER_FILLED = {
    "train.patience",
    "train.clip_value",
    "train.clip_norm",
    "train.compat.batch_norm_momentum",
    "train.frozen_stages",
    "data.workers",
    "data.layout",
    "model.views",  # chosen by the validation classes
}
"""None is a value of its own here, or is decided later, as the description says."""


@pytest.mark.parametrize("mode", list(MODE_DEFAULTS))
def test_resolving_leaves_no_other_none(mode):
    resolved = Experiment().override([f"train.mode={mode}"])
    resolved = resolved.resolve(gpu=False, short_side=100, backbone_size=224, images=500)

    def nones(tree, prefix=""):
        for name, value in tree.items():
            if isinstance(value, dict):
                yield from nones(value, f"{prefix}{name}.")
            elif value is None:
                yield prefix + name

    assert set(nones(resolved.model_dump())) <= NEVER_FILLED


@pytest.mark.parametrize("mode", list(MODE_DEFAULTS))
@pytest.mark.parametrize(("patience", "kept"), [("null", None), ("3", 3)])
def test_patience_is_what_was_asked_for(mode, patience, kept):
    experiment = Experiment().override([f"train.mode={mode}", f"train.patience={patience}"])
    assert experiment.resolve(gpu=True, short_side=99, backbone_size=224, images=99).train.patience == kept


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
