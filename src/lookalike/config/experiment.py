"""An experiment: every setting of a run, in one frozen value that reads and writes YAML.

`Experiment()` is the default; `override(["loss.scale=16", "train.mode=frozen"])` gives another one;
`resolve` fills in what depends on the device and on the images. A run's `experiment.yaml` is the
resolved experiment, complete: running it again on the same data gives the same numbers.
"""

import inspect
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from lookalike.config.schema import (
    BatchSettings,
    DataSettings,
    LossSettings,
    ModelSettings,
    Settings,
    TrainSettings,
)
from lookalike.data.dataset import LabeledImages
from lookalike.data.splits import Split, three_way_split
from lookalike.errors import ArgumentError, FileError, UnknownNameError
from lookalike.losses import LOSSES
from lookalike.utils.validation import look_up, near_miss

MODE_DEFAULTS: dict[str, dict[str, Any]] = {
    "frozen": {"epochs": 30, "patience": 30, "warmup_epochs": 0}
    | {"lr": 1e-4, "head_lr": 3e-3, "proxy_lr": 3e-2},
    "partial": {"epochs": 6, "patience": 6, "warmup_epochs": 0}
    | {"lr": 3e-4, "head_lr": 3e-4, "proxy_lr": 3e-2},
    "finetune": {"epochs": 20, "patience": 20, "warmup_epochs": 1}
    | {"lr": 1e-4, "head_lr": 1e-4, "proxy_lr": 1e-2},
}
"""What a None in `train` becomes, by mode; chosen on validation classes (docs/results.md)."""


NETWORK: dict[str, tuple[str, ...]] = {
    "model": ("backbone", "weights", "pooling", "pooling_k", "norm", "embedding_dim", "start"),
    "data": ("image_size", "resize"),
}
"""The settings that make the untrained network; a run that goes on from another one has those of that one."""


class Experiment(Settings):
    """All settings of a run."""

    version: int = 1
    seed: int = 0
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
            place, equals, text = assignment.partition("=")
            if not equals:
                raise ArgumentError(
                    f"'{assignment}' is not a setting; write NAME=VALUE, such as loss.scale=16"
                )
            _assign(known, chosen, place.strip(), _value(text))
        return _parse(chosen, "the settings")

    def resolve(self, *, gpu: bool, short_side: int, backbone_size: int, images: int) -> "Experiment":
        """This experiment with every None filled that depends on the device, the mode or the images.

        Args:
            image_size: median short side of the images, pixels.
            backbone_size: the side that the backbone was trained at, pixels.
            images: number of training images; a closed-form start has no more directions than these.
        """
        mode = self.train.mode or ("finetune" if gpu else "partial")
        train = {"mode": mode, "precision": "bf16-mixed" if gpu else "32-true", **MODE_DEFAULTS[mode]}
        train |= {key: value for key, value in self.train.model_dump().items() if value is not None}
        size = self.data.image_size or _input_size(short_side, backbone_size, gpu=gpu)
        data = self.data.model_dump() | {"image_size": size, "resize": self.data.resize or size}
        dim = self.model.embedding_dim or min(512, 2 ** int(math.log2(max(2, images // 2))))
        model = self.model.model_dump() | {"embedding_dim": dim}
        return _parse(self.model_dump() | {"train": train, "data": data, "model": model}, "the settings")

    def with_network_of(self, earlier: "Experiment") -> "Experiment":
        """This experiment on the network of an earlier run, whose model training goes on from.

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
                        f"{part}.{name} is {value}, but the run that training goes on from has {kept}; leave the "
                        "setting out, or train anew"
                    )
                tree[part][name] = kept
        return _parse(tree, "the settings")

    def split(self, table: LabeledImages) -> Split:
        """Train, validation and test classes of `table`, by the seed and the data settings."""
        return three_way_split(
            table,
            test_fraction=self.data.test_fraction,
            validation_fraction=self.data.validation_fraction,
            seed=self.seed,
            source=self.data.split,
        )

    def check(self) -> "Experiment":
        """Refuses loss names and arguments that do not exist, and settings that cannot go together; returns itself.

        Raises:
            UnknownNameError, ArgumentError: with the setting that helps.
        """
        known = loss_arguments(self.loss.name)
        for name in self.loss.arguments:
            if name not in known:
                raise UnknownNameError(
                    f"loss '{self.loss.name}' has no setting '{name}'{near_miss(name, known)} "
                    f"(it has: {', '.join(sorted(known))})"
                )
        if self.model.views == 2 and not self.data.flip:
            raise ArgumentError(
                "model.views=2 averages an image with its mirror image, and data.flip=false says that these show "
                "different things; leave one of the two out"
            )
        train, sparse = self.train, bool(self.loss.arguments.get("sparse_gradients"))
        if sparse and train.proxy_optimizer == "same":
            raise ArgumentError(
                f"loss.sparse_gradients: train.optimizer={train.optimizer} takes dense gradients only; "
                "set train.proxy_optimizer=row_sparse_adamw, row_sparse_adamw_small or row_sparse_sgd"
            )
        if sparse and train.clip_value is not None:
            raise ArgumentError("train.clip_value cannot clip sparse gradients; leave one of the two out")
        if train.clip_norm is not None and (train.shard_proxies or train.proxy_optimizer != "same"):
            raise ArgumentError(
                "train.clip_norm needs all gradients in one place, which row-sparse and sharded proxies do not "
                "have; use train.clip_value"
            )
        return self

    def save(self, file: Path) -> None:
        """Writes YAML."""
        file.write_text(yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False))


def load_experiment(file: Path) -> Experiment:
    """The experiment in a YAML (or JSON) file; missing settings take their defaults.

    Raises:
        FileError: the file cannot be read.
        ArgumentError, UnknownNameError: a setting that does not exist, or a value that it cannot take.
    """
    try:
        tree = yaml.safe_load(file.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise FileError(f"no readable experiment at '{file}': {error}") from error
    if not isinstance(tree, dict):
        raise ArgumentError(f"'{file}' holds no experiment; expected sections such as train: and loss:")
    return _parse(tree, str(file)).check()


def loss_arguments(name: str) -> dict[str, inspect.Parameter]:
    """The settings of a loss: the keyword arguments of its class, but for the generator."""
    parameters = inspect.signature(look_up(LOSSES, name, "loss")).parameters
    return {
        key: value
        for key, value in parameters.items()
        if value.kind is inspect.Parameter.KEYWORD_ONLY and key != "generator"
    }


def _parse(tree: dict[str, Any], where: str) -> Experiment:
    try:
        return Experiment.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise UnknownNameError(f"{where}: unknown setting '{place}'{_hint(place)}") from error
        raise ArgumentError(f"{where}: {place} is {first['input']!r}; {first['msg'].lower()}") from error


def _input_size(short_side: int, backbone_size: int, *, gpu: bool) -> int:
    """The side at which images of a median short side of `short_side` are shown to the network.

    A network does best near the size that it was trained at, and small images do better enlarged than shown
    small; without a GPU a seventh less keeps most of that for three quarters of the time. Nothing is gained
    by enlarging more than twice.
    """
    most = backbone_size if gpu else round(backbone_size * 6 / 7 / 32) * 32
    return min(most, max(32, round(2 * short_side / 32) * 32))


def _value(text: str) -> Any:
    """A setting's text as YAML, and 1e-2 as the number that YAML 1.1 does not see in it."""
    value = yaml.safe_load(text)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _assign(known: dict[str, Any], chosen: dict[str, Any], place: str, value: Any) -> None:
    """Sets `place` in both trees: `known` has every setting, `chosen` only those that somebody set."""
    *sections, name = place.split(".")
    if sections == ["loss"] and name == "name" and value != known["loss"]["name"]:
        known["loss"], chosen["loss"] = {"name": value}, {"name": value}  # the other loss's arguments go
        return
    node, target = known, chosen
    for section in sections:
        if not isinstance(node.get(section), dict):
            raise UnknownNameError(f"unknown setting '{place}'{_hint(place)}")
        node, target = node[section], target.setdefault(section, {})
    if name not in node and sections != ["loss"]:
        raise UnknownNameError(f"unknown setting '{place}'{_hint(place)}")
    node[name] = target[name] = value


def _hint(place: str) -> str:
    return near_miss(place, setting_names()) or f" (settings: {', '.join(setting_names())})"


def setting_names() -> list[str]:
    """Every dotted name that can be set, without the losses' own arguments."""
    return [name for name, _, _ in setting_facts()]


def setting_facts(model: type[BaseModel] = Experiment, prefix: str = "") -> list[tuple[str, Any, str]]:
    """Name, default and meaning of everything that can be set."""
    facts: list[tuple[str, Any, str]] = []
    for name, info in model.model_fields.items():
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            facts += setting_facts(kind, f"{prefix}{name}.")
        else:
            facts.append((f"{prefix}{name}", info.default, info.description or ""))
    return facts
