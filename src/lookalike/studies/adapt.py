"""Changes to a row's experiment, to run it where its own network, images or machine are absent.

backbone    another network with its usual weights, at its own input size
mode        frozen or partial instead of finetune: rates, epochs, optimizer and schedule become this
            project's defaults for the mode; what the row is about stays: loss, pooling, norm, sampler,
            dimension, and the rate of its proxies relative to its recipe's
settings    any setting, as --set gives it
smoke       toy size, to see that a row runs at all: a tiny random network, small embeddings, one epoch

Any of these makes the result not comparable with the paper.
"""

from dataclasses import dataclass
from typing import Any

from lookalike.config.defaults import MODE_DEFAULTS
from lookalike.config.experiment import Experiment
from lookalike.config.schema import BatchSettings, DataSettings, LossSettings, ModelSettings, TrainSettings
from lookalike.data.dataset import LabeledImages
from lookalike.losses import LOSSES
from lookalike.studies.changes import combined
from lookalike.studies.study import Row
from lookalike.training.checks import check_mode

TOY = Experiment(
    data=DataSettings(image_size=64, resize=64, workers=0),
    model=ModelSettings(backbone="test_resnet", weights="none"),
    train=TrainSettings(precision="32-true"),
)
TOY_LOSS = {"proxies_per_class": 2, "centers_per_class": 2, "coarse": [3], "learners": 2, "neighborhood": 2}
NEUTRAL = ("model.weights", "data.workers")  # where things lie, and how fast: not what they are


@dataclass(frozen=True)
class Adaptation:
    """What is changed in every row."""

    backbone: str | None = None
    mode: str | None = None
    settings: tuple[str, ...] = ()
    smoke: bool = False

    @property
    def comparable(self) -> bool:
        """Whether rows are still what their paper ran."""
        return not (self.backbone or self.mode or self.changing or self.smoke)

    @property
    def changing(self) -> tuple[str, ...]:
        """The settings that make another experiment, in one order: all but where weights lie and who decodes."""
        # of one name the last setting counts
        by_name = {setting.partition("=")[0].strip(): setting for setting in self.settings}
        return tuple(
            by_name[name]
            for name in sorted(by_name)
            if name not in NEUTRAL or by_name[name].endswith("=none")
        )

    def describe(self) -> str:
        """In words, for titles."""
        parts = (
            "toy size" if self.smoke else "",
            f"network {self.backbone}" if self.backbone else "",
            f"mode {self.mode}" if self.mode else "",
            " ".join(self.changing),
        )
        return ", ".join(part for part in parts if part)

    def apply(self, row: Row, table: LabeledImages, seed: int) -> Experiment:
        """The experiment of a row, changed, on this data, with this seed.

        Raises:
            ArgumentError: the row cannot run this way; the message says why.
        """
        experiment = row.experiment()
        mode = self.mode
        if self.smoke:
            mode = "partial" if LOSSES[experiment.loss.name].needs_feature_maps else "frozen"
        elif mode == "frozen":
            check_mode(experiment.loss.name, "frozen")
        if self.backbone and not self.smoke:
            experiment = combined(experiment, _network(self.backbone))
        if mode and mode != experiment.train.mode:
            experiment = _in_mode(experiment, row, mode)
        if self.smoke:
            experiment = _toy(experiment)
        experiment = _fitting(experiment, table)
        return experiment.override([*self.settings, f"seed={seed}"]).check()


def _network(backbone: str) -> Experiment:
    return Experiment(
        model=ModelSettings(backbone=backbone, weights="auto"),
        data=DataSettings(image_size=None, resize=None),
    )


def _in_mode(experiment: Experiment, row: Row, mode: str) -> Experiment:
    """The defaults of a mode, but for few epochs and for proxies faster or slower than the recipe's."""
    assert row.recipe is not None
    own, base, defaults = experiment.train, row.recipe.experiment.train, MODE_DEFAULTS[mode]
    train: dict[str, Any] = {
        **TrainSettings().model_dump(),
        "mode": mode,
        "metric": own.metric,
        "compat": {"random_proxies": own.compat.random_proxies},
        "refit": own.refit,
        "proxy_lr": _proxy_rate(own, base, defaults),
    }
    if own.epochs is not None and own.epochs <= 1:
        train["epochs"] = own.epochs
    return Experiment.model_validate(experiment.model_dump() | {"train": train})


def _proxy_rate(own: TrainSettings, base: TrainSettings, defaults: dict[str, Any]) -> float:
    """As many times the mode's rate as the row's is of its recipe's, never below the rate of the head."""
    assert own.proxy_lr is not None
    assert base.proxy_lr is not None
    assert base.head_lr is not None
    fast = base.proxy_lr > base.head_lr
    usual = defaults["proxy_lr"] if fast else defaults["head_lr"]
    return float(max(defaults["head_lr"], usual * own.proxy_lr / base.proxy_lr))


def _toy(experiment: Experiment) -> Experiment:
    """The experiment with a tiny network, small batches and one epoch."""
    model, batch, train, loss = experiment.model, experiment.batch, experiment.train, experiment.loss
    small: dict[str, Any] = {name: value for name, value in TOY_LOSS.items() if name in loss.arguments}
    if LOSSES[loss.name].needs_feature_maps:
        small["moment_channels"] = 16
    size = Experiment(
        model=ModelSettings(
            embedding_dim=min(16, model.embedding_dim or 16), pooling_k=min(4, model.pooling_k)
        ),
        loss=LossSettings(name=loss.name, **(loss.arguments | small)),
        batch=BatchSettings(
            size=min(32, batch.size), classes=min(4, batch.classes), per_class=min(4, batch.per_class)
        ),
        train=TrainSettings(epochs=1 if train.epochs is None else min(1, train.epochs)),
    )
    return combined(experiment, TOY, size)


def _fitting(experiment: Experiment, table: LabeledImages) -> Experiment:
    """The experiment with balanced batches of no more classes than training surely has."""
    most = max(2, table.num_classes // 4)
    most -= most % experiment.loss.arguments.get("neighborhood", 1)
    if experiment.batch.sampler == "balanced" and experiment.batch.classes > most:
        return combined(experiment, Experiment(batch=BatchSettings(classes=most)))
    return experiment
