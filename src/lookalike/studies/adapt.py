"""How a row's experiment is changed to run where its own network, images or machine are absent.

backbone    another network with its usual weights, at the images' own size
mode        frozen or partial instead of finetune: rates, epochs, optimizer and schedule become this
            project's defaults for the mode, since the paper's would mean nothing; what the row is about
            stays: loss, pooling, norm, sampler, dimension, and the rate of its proxies beside its recipe's
settings    any setting, as --set gives it
smoke       toy size, to see that a row runs at all: a tiny random network, small embeddings, one epoch

Each of them makes the row's number another than the paper's; `Adaptation.comparable` says so.
"""

from dataclasses import dataclass
from typing import Any

from lookalike.config.experiment import MODE_DEFAULTS, Experiment
from lookalike.config.schema import TrainSettings
from lookalike.data.dataset import LabeledImages
from lookalike.errors import ArgumentError
from lookalike.models.backbones import describe
from lookalike.models.pooling import pooled_width
from lookalike.studies.study import Row

TOY = (
    "model.backbone=test_resnet",
    "model.weights=none",
    "data.image_size=64",
    "data.resize=64",
    "data.workers=0",
)
TOY_LOSS = {"proxies_per_class": 2, "centers_per_class": 2, "coarse": [3]}
NEUTRAL = ("model.weights", "data.workers")  # where things lie, and how fast: not what they are
NEEDS_MAPS = ("horde",)  # losses of feature maps, which frozen mode does not keep


@dataclass(frozen=True)
class Adaptation:
    """What is changed in every row of a run of a study."""

    backbone: str | None = None
    mode: str | None = None
    settings: tuple[str, ...] = ()
    smoke: bool = False

    @property
    def comparable(self) -> bool:
        """Whether rows still are what their paper ran."""
        return not (self.backbone or self.mode or self.changing or self.smoke)

    @property
    def changing(self) -> tuple[str, ...]:
        """The settings that make another experiment: all but where weights lie and how images are read."""
        return tuple(
            setting
            for setting in self.settings
            if setting.partition("=")[0].strip() not in NEUTRAL or setting.endswith("=none")
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
        mode = "frozen" if self.smoke else self.mode
        if mode == "frozen" and experiment.loss.name in NEEDS_MAPS:
            if not self.smoke:
                raise ArgumentError(
                    f"{experiment.loss.name} reads feature maps, which mode frozen does not keep"
                )
            mode = "partial"
        if self.backbone and not self.smoke:
            experiment = experiment.override(_network(self.backbone))
        if mode and mode != experiment.train.mode:
            experiment = _in_mode(experiment, row, mode)
        if self.smoke:
            experiment = _toy(experiment)
        experiment = _fitting(experiment, table)
        return experiment.override([*self.settings, f"seed={seed}"]).check()


def _network(backbone: str) -> list[str]:
    return [
        f"model.backbone={backbone}", "model.weights=auto", "data.image_size=null", "data.resize=null",
    ]  # fmt: skip


def _in_mode(experiment: Experiment, row: Row, mode: str) -> Experiment:
    """The defaults of a mode, but for few epochs and for proxies faster or slower than the recipe's."""
    assert row.recipe is not None
    own, base, defaults = experiment.train, row.recipe.experiment.train, MODE_DEFAULTS[mode]
    train: dict[str, Any] = {
        **TrainSettings().model_dump(),
        "mode": mode,
        "metric": own.metric,
        "proxy_start": own.proxy_start,
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
    settings = [
        *TOY,
        f"model.embedding_dim={min(16, experiment.model.embedding_dim or 16)}",
        f"model.pooling_k={min(4, experiment.model.pooling_k)}",
        f"train.epochs={min(1, experiment.train.epochs or 1)}",
        f"batch.size={min(32, experiment.batch.size)}",
        f"batch.classes={min(4, experiment.batch.classes)}",
        f"batch.per_class={min(4, experiment.batch.per_class)}",
        "train.precision=32-true",
    ]
    arguments = experiment.loss.arguments
    settings += [f"loss.{name}={value}" for name, value in TOY_LOSS.items() if name in arguments]
    if experiment.loss.name in NEEDS_MAPS:
        settings += ["loss.moment_channels=16"]
    return experiment.override(settings)


def _fitting(experiment: Experiment, table: LabeledImages) -> Experiment:
    """Balanced batches of no more classes than training surely has, and an identity as wide as it must be."""
    if experiment.model.start == "identity":  # which only fits an embedding as wide as the pooled vector
        model = experiment.model
        width = pooled_width(describe(model.backbone).channels, model.pooling)
        experiment = experiment.override([f"model.embedding_dim={width}"])
    most = max(2, table.num_classes // 4)
    if experiment.batch.sampler == "balanced" and experiment.batch.classes > most:
        return experiment.override([f"batch.classes={most}"])
    return experiment
