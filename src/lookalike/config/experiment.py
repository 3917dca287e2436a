"""An experiment: every setting of a run, in one frozen value that reads and writes YAML.

`Experiment()` is the default; `override(["loss.scale=16", "train.mode=frozen"])` gives another one;
`resolve` fills in what depends on the device and on the images. A run's `experiment.yaml` is the
resolved experiment, complete: running it again on the same data gives the same numbers.
"""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from lookalike.config.assignments import as_numbers, assign, hint, read_value
from lookalike.config.combinations import check_combinations
from lookalike.config.defaults import MODE_DEFAULTS, default_epochs, default_mode, embedding_dim, input_size
from lookalike.config.schema import (
    BatchSettings,
    DataSettings,
    LossSettings,
    ModelSettings,
    Precision,
    Settings,
    TrainSettings,
)
from lookalike.config.setting_facts import setting_facts
from lookalike.data.dataset import LabeledImages
from lookalike.data.splits import Split, three_way_split
from lookalike.errors import ArgumentError, FileError, UnknownNameError
from lookalike.utils.io import write_text
from lookalike.utils.what_is import found_instead

VERSION = 2
"""Raised whenever a setting is renamed or removed."""

NETWORK: dict[str, tuple[str, ...]] = {
    "model": ("backbone", "weights", "pooling", "pooling_k", "norm", "embedding_dim", "start"),
    "data": ("image_size", "resize"),
}
"""The settings that make the untrained network; a run that starts from another run's model has those of that run."""


class Experiment(Settings):
    """All settings of a run."""

    version: int = Field(VERSION, description="format of this file")
    seed: int = Field(0, ge=0, lt=2**32, description="decides everything that is random")
    data: DataSettings = DataSettings()
    model: ModelSettings = ModelSettings()
    loss: LossSettings = LossSettings()
    batch: BatchSettings = BatchSettings()
    train: TrainSettings = TrainSettings()

    def override(self, assignments: Iterable[str]) -> "Experiment":
        """This experiment with `section.name=value` assignments; values are read as YAML.

        Raises:
            UnknownNameError: no such setting; the message names the near miss.
            ArgumentError: a value that the setting cannot take.
        """
        known, chosen = self.model_dump(), self.model_dump(exclude_unset=True)
        for assignment in assignments:
            setting, equals, text = assignment.partition("=")
            if not equals:
                raise ArgumentError(
                    f"'{assignment}' is not a setting; write NAME=VALUE, such as loss.scale=16"
                )
            assign(known, chosen, setting.strip(), read_value(text, setting.strip()), _names())
        return _parse(chosen, "the settings")

    def resolve(
        self,
        *,
        gpu: bool,
        short_side: int,
        backbone_size: int,
        patch: int = 1,
        images: int,
        precision: Precision = "32-true",
    ) -> "Experiment":
        """This experiment with every None filled that depends on the device, the mode or the images.

        Args:
            gpu: whether training runs on an accelerator.
            short_side: median short side of the images, pixels.
            backbone_size: the side that the backbone was trained at, pixels.
            patch: the size of an image must be a multiple of this many pixels.
            images: number of training images; a closed-form start has no more directions than these, and few take
                more epochs.
            precision: the best that the device computes in.
        """
        mode = self.train.mode or default_mode(gpu=gpu)
        train = {"mode": mode, "precision": precision, **MODE_DEFAULTS[mode]}
        train["epochs"] = default_epochs(mode, images=images, batch=self.batch.images)
        train |= {key: value for key, value in self.train.model_dump().items() if value is not None}
        size = self.data.image_size or input_size(short_side, backbone_size, patch, gpu=gpu)
        data = self.data.model_dump() | {"image_size": size, "resize": self.data.resize or size}
        dim = self.model.embedding_dim or embedding_dim(images)
        model = self.model.model_dump() | {
            "embedding_dim": dim,
            "precision": self.model.precision or "float32",
        }
        return _parse(self.model_dump() | {"train": train, "data": data, "model": model}, "the settings")

    def with_network_of(self, earlier: "Experiment") -> "Experiment":
        """This experiment with the network of an earlier run, whose model training starts from.

        Raises:
            ArgumentError: a setting of the network was chosen here, and is another one there.
        """
        tree = self.model_dump()
        for part, names in NETWORK.items():
            mine, theirs = getattr(self, part), getattr(earlier, part)
            for name in names:
                value, kept = getattr(mine, name), getattr(theirs, name)
                if name in mine.model_fields_set and value != kept:
                    raise ArgumentError(
                        f"{part}.{name} is {value}, but the run that training starts from has {kept}; drop the "
                        "setting or train from scratch"
                    )
                tree[part][name] = kept
        return _parse(tree, "the settings")

    def split(
        self, table: LabeledImages, *, not_test: Collection[str] = (), not_validation: Collection[str] = ()
    ) -> Split:
        """Train, validation and test classes of `table`, by the seed and the data settings; see `three_way_split`."""
        return three_way_split(
            table,
            test_fraction=self.data.test_fraction,
            validation_fraction=self.data.validation_fraction,
            seed=self.seed,
            source=self.data.split,
            not_test=not_test,
            not_validation=not_validation,
        )

    def check(self, accelerator: str | None = None) -> "Experiment":
        """Refuses settings of the loss that do not exist or have another type, and settings that cannot go together.

        Args:
            accelerator: "cpu", "cuda" or "mps", to refuse what it cannot do.

        Returns:
            Itself, numbers of the loss that were written as words, such as YAML's 1e-1, made numbers.

        Raises:
            UnknownNameError, ArgumentError: with the setting that helps.
        """
        experiment = self.model_copy(update={"loss": check_loss_settings(self.loss)})
        check_combinations(data=self.data, model=self.model, loss=experiment.loss, train=self.train)
        if accelerator == "cpu" and self.train.precision == "16-mixed":
            raise ArgumentError(
                "train.precision=16-mixed needs a GPU; on a CPU use 32-true or bf16-mixed, or leave it out"
            )
        return experiment

    def save(self, file: Path) -> None:
        """Writes YAML."""
        write_text(file, yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def load_experiment(file: Path) -> Experiment:
    """The experiment in a YAML (or JSON) file; missing settings take their defaults.

    Raises:
        FileError: the file cannot be read.
        ArgumentError, UnknownNameError: a setting that does not exist, or a value that it cannot take.
    """
    if not file.is_file():
        raise FileError(
            f"cannot read the experiment '{file}'{found_instead(file)}; expected a YAML file, such as a run's "
            "experiment.yaml"
        )
    try:
        tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise FileError(f"cannot read the experiment '{file}': {' '.join(str(error).split())}") from error
    if not isinstance(tree, dict):
        raise ArgumentError(f"'{file}' is not an experiment; expected sections such as train: and loss:")
    if (found := tree.get("version", VERSION)) != VERSION:
        raise FileError(
            f"'{file}' has format version {found}, this lookalike reads version {VERSION}; "
            "use the lookalike that wrote it, or leave out the version and the settings that changed"
        )
    return _parse(tree, str(file)).check()


def check_loss_settings(loss: LossSettings) -> LossSettings:
    """The settings of a loss, each of the type that its class declares.

    Raises:
        UnknownNameError: no such loss or setting.
        ArgumentError: a value of another type.
    """
    from lookalike.losses import check_arguments  # brings torch, which reading data does not need

    arguments = {name: as_numbers(value) for name, value in loss.arguments.items()}
    check_arguments(loss.name, arguments)
    return LossSettings.model_validate({"name": loss.name, **arguments})


def _parse(tree: dict[str, Any], where: str) -> Experiment:
    try:
        return Experiment.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        setting = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise UnknownNameError(
                f"{where}: unknown setting '{setting}'{hint(setting, _names())}"
            ) from error
        raise ArgumentError(f"{where}: {setting} is {first['input']!r}; {first['msg'].lower()}") from error


def _names() -> list[str]:
    return [name for name, _, _ in setting_facts(Experiment)]
