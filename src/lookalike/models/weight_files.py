"""Files of pretrained weights, read without executing them, and copied into a network that they fit.

Weights that do not fit are refused with the names that differ.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from lookalike.errors import FileError, first_line
from lookalike.models.bn_inception import BNInception


def read_weights(file: Path) -> dict[str, Tensor]:
    """Tensors of a weights file by name; a `.pth` may keep them under "state_dict" or "model"."""
    if not file.is_file():
        raise FileError(
            f"no weights file '{file}'; weights are auto, package, hub, none or the path of a file"
        )
    if file.suffix == ".safetensors":
        try:
            return load_file(file)
        except Exception as error:
            raise FileError(f"'{file}' is no readable safetensors file: {first_line(error)}") from error
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        raise FileError(
            f"'{file}' holds more than tensors or is damaged, and is not executed; convert it to .safetensors"
        ) from error
    for key in ("state_dict", "model", "model_state_dict"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    named = dict(content) if isinstance(content, Mapping) else {}
    tensors = {key: value for key, value in named.items() if isinstance(value, Tensor)}
    if not tensors:
        raise FileError(f"'{file}' holds no tensors by name")
    return tensors


def copy_by_position(backbone: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copies weights whose names differ but whose order is the network's, checking every shape.

    Args:
        backbone: the network, without its classifier.
        tensors: all weights in order, the classifier's two last; batch norm's counters are not read.
    """
    given = [(key, value) for key, value in tensors.items() if not key.endswith("num_batches_tracked")]
    wanted = [(k, v) for k, v in backbone.state_dict().items() if not k.endswith("num_batches_tracked")]
    if len(given) - len(wanted) not in (0, 2):
        raise FileError(f"the weights hold {len(given)} tensors, the network {len(wanted)} and a classifier")
    with torch.no_grad():
        for (source, value), (target, own) in zip(given, wanted, strict=False):
            if value.shape != own.shape:
                raise FileError(
                    f"weights do not fit: {source} {tuple(value.shape)} at {target} {tuple(own.shape)}"
                )
            own.copy_(value)


def load_named_weights(
    backbone: nn.Module, tensors: Mapping[str, Tensor], heads: tuple[str, ...], where: str
) -> None:
    """Loads weights by name and refuses what is missing, left over or of another shape.

    Accepted: the prefix `module.` or `backbone.` on all names (a saved embedder's projection is then left out), a
    classifier that the network no longer has (`heads`), missing counters of batch norm, and batch norm tensors of
    shape (1, F), as older files keep them.
    """
    named = _without_prefix(tensors)
    if isinstance(backbone, BNInception):
        named = backbone.rename(named)
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
        if _without_ones(named[key].shape) == _without_ones(wanted[key].shape):
            named[key] = named[key].reshape(wanted[key].shape)
        else:
            shapes.append(f"{key} {tuple(named[key].shape)} for {tuple(wanted[key].shape)}")
    if missing or extra or shapes:
        parts = [("missing", missing), ("not of this network", extra), ("of another shape", sorted(shapes))]
        found = "; ".join(f"{len(keys)} {what}: {', '.join(keys[:3])}" for what, keys in parts if keys)
        raise FileError(f"weights in {where} do not fit the backbone ({found})")
    backbone.load_state_dict(named, strict=False)


def _without_ones(shape: Sequence[int]) -> list[int]:
    """A shape without its dimensions of size 1."""
    return [size for size in shape if size != 1]


def _without_prefix(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    if any(key.startswith("backbone.") for key in tensors):
        return {k.removeprefix("backbone."): v for k, v in tensors.items() if k.startswith("backbone.")}
    if tensors and all(key.startswith("module.") for key in tensors):
        return {key.removeprefix("module."): value for key, value in tensors.items()}
    return dict(tensors)
