"""What settings that are left open become, by device, images and mode."""

import pytest

from lookalike.config.defaults import MODE_DEFAULTS, default_epochs
from lookalike.config.experiment import (
    Experiment,
)


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
