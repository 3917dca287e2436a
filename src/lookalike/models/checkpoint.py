"""A trained embedder on disk: `model.safetensors` and `config.json`, enough to rebuild it, without pickle.

The weights file also contains the configuration and is the only file that `load_model` reads, so replacing that one
file is one step: an interrupted save leaves the older model whole. `config.json` is the same text for people and
other tools. Proxies are not part of a model: class names are kept as plain strings.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from lookalike.errors import FileError, LookalikeError, first_line
from lookalike.models import networks
from lookalike.models.config import EmbedderConfig
from lookalike.models.embedder import Embedder
from lookalike.utils.io import escape_surrogates, to_json, write_text
from lookalike.utils.tensor_file import save_tensors
from lookalike.utils.what_is import RUN, found_instead

FORMAT = 2
WEIGHTS, CONFIG = "model.safetensors", "config.json"
CHECKED_BYTES = 200_000_000
"""Files up to this size have their checksum verified when they are loaded, which takes below a second."""
LARGEST_SIZE = 4096
_NOT_IN_FINGERPRINT = ("backbone", "weights_origin", "weights_license", "precision")


def save_model(
    folder: str | Path,
    embedder: Embedder,
    *,
    class_names: Sequence[str] = (),
    extra: dict[str, Any] | None = None,
) -> None:
    """Writes the embedder into `folder` (made if absent), each file in one step.

    Args:
        folder: where `model.safetensors` and `config.json` are written; other files there stay.
        embedder: on any device, in any memory format.
        class_names: of the training classes, in order of their labels.
        extra: plain values to save as well (JSON).
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().cpu().contiguous() for name, value in embedder.state_dict().items()}
    config = {
        "format": FORMAT,
        "embedder": embedder.config.to_dict(),
        "fingerprint": fingerprint(embedder),
        "class_names": list(class_names),
        "extra": extra or {},
    }
    config["checksum"] = _checksum(config, tensors)
    text = escape_surrogates(to_json(config, indent=1))
    save_tensors(folder / WEIGHTS, tensors, metadata={"config": text})
    write_text(folder / CONFIG, text + "\n")


def load_model(folder: str | Path) -> tuple[Embedder, dict[str, Any]]:
    """The embedder of a run directory or model folder, on the CPU in eval mode, and its configuration.

    The configuration holds `class_names`, `fingerprint`, `extra`, and under `embedder` the fields of
    `EmbedderConfig`. A file of unknown origin is safe to load: nothing in it is executed, names of files or hubs in
    it are not followed, and no memory is taken before the network has been compared with the tensors in the file.

    Raises:
        FileError: no model there, or one that is damaged, of another format, or not of this package.
    """
    file = Path(folder) / WEIGHTS
    if not file.is_file():
        raise FileError(
            f"no model in '{folder}'{found_instead(folder)}; expected {RUN}, or a model folder (with {WEIGHTS})"
        )
    try:
        with safe_open(file, framework="pt") as stored:
            text = (stored.metadata() or {}).get("config")
            config = None if text is None else _read_config(text, file)
            if config is not None:
                shapes = {name: tuple(stored.get_slice(name).get_shape()) for name in stored.keys()}  # noqa: SIM118
                settings = _checked_settings(config, shapes, file)
            tensors: dict[str, Tensor] = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        if isinstance(error, LookalikeError):
            raise
        raise FileError(
            f"'{file}' is damaged or not a safetensors file ({first_line(error)}); save the model again"
        ) from error
    if config is None:
        raise FileError(f"'{file}' was not saved by this package; load it with weights='{file}' instead")
    with torch.random.fork_rng(devices=[]):
        embedder = Embedder(networks.create(settings.architecture, settings.preprocessing.size), settings)
    if file.stat().st_size <= CHECKED_BYTES and _checksum(config, tensors) != config.get("checksum"):
        raise FileError(
            f"'{file}' is damaged: its content is not what was saved (the checksum differs); copy it again"
        )
    embedder.load_state_dict(tensors)
    return embedder.eval(), config


def _read_config(text: str, file: Path) -> dict[str, Any]:
    try:
        config = json.loads(text)
        found = config["format"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise FileError(f"'{file}' holds no readable configuration; save the model again") from error
    if found != FORMAT:
        advice = "update lookalike" if isinstance(found, int) and found > FORMAT else "train the model again"
        raise FileError(f"'{file}' has format {found}, this version reads format {FORMAT}; {advice}")
    if not isinstance(config.get("embedder"), dict) or not isinstance(config.get("fingerprint"), str):
        raise FileError(f"'{file}' holds no readable configuration; save the model again")
    return dict(config)


def _checked_settings(
    config: dict[str, Any], shapes: dict[str, tuple[int, ...]], file: Path
) -> EmbedderConfig:
    """The settings, after the network that they describe has been compared with the tensors in the file."""
    settings = EmbedderConfig.from_dict(config["embedder"])
    if settings.preprocessing.size > LARGEST_SIZE:
        raise FileError(f"'{file}' names an image size of {settings.preprocessing.size} pixels")
    try:
        with torch.device("meta"):
            network = Embedder(networks.create(settings.architecture, settings.preprocessing.size), settings)
    except (LookalikeError, RuntimeError, ValueError, TypeError, AssertionError) as error:
        raise FileError(f"'{file}' names a network that cannot be built: {first_line(error)}") from error
    wanted = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    if wanted != shapes:
        name = min(key for key in {*wanted, *shapes} if wanted.get(key) != shapes.get(key))
        raise FileError(
            f"'{file}' does not fit backbone '{settings.backbone}' as this version of timm builds it: {name} is "
            f"{shapes.get(name, 'missing')} in the file and {wanted.get(name, 'missing')} in the network"
        )
    return settings


def fingerprint(embedder: Embedder) -> str:
    """SHA-256 (hex) of everything that decides an embedding: settings, preprocessing and weights.

    The same on every device, in every memory format, and after saving and loading. Counters of batch norm, the
    name and origin of the backbone, and the precision, which only rounds, are left out.
    """
    settings = {
        key: value for key, value in embedder.config.to_dict().items() if key not in _NOT_IN_FINGERPRINT
    }
    weights = {
        name: value
        for name, value in embedder.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }
    return digest(settings, weights)


def _checksum(config: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """SHA-256 (hex) of everything in a file but the checksum itself."""
    return digest({key: value for key, value in config.items() if key != "checksum"}, tensors)


def digest(values: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 (hex) of plain values and of named tensors, with their types and shapes."""
    found = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for name, value in sorted(tensors.items()):
        found.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        found.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return found.hexdigest()
