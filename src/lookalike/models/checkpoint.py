"""A trained embedder on disk: `model.safetensors` and `config.json`, enough to rebuild it, without pickle.

The weights file carries the text of the configuration too and is what `load_model` reads, so replacing that
one file is one step: an interrupted save leaves the older model whole. `config.json` is the same text for
people and other tools. Proxies are not part of a model: class names are kept as plain strings.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from lookalike.errors import FileError
from lookalike.models import backbones
from lookalike.models.embedder import Embedder
from lookalike.models.parts import EmbedderConfig
from lookalike.utils.io import write_atomically

FORMAT = 1
WEIGHTS, CONFIG = "model.safetensors", "config.json"
_SAYS_NOTHING_ABOUT_VECTORS = ("weights_origin", "weights_license")


def save_model(
    folder: str | Path,
    embedder: Embedder,
    *,
    class_names: Sequence[str] = (),
    extra: dict[str, Any] | None = None,
) -> None:
    """Writes the embedder into `folder` (made if absent), each file in one step.

    Args:
        folder: where `model.safetensors` and `config.json` go; other files there stay.
        embedder: on any device, in any memory format.
        class_names: of the training classes, in order of their labels.
        extra: plain values to keep beside (JSON).
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "format": FORMAT,
        "embedder": embedder.config.to_dict(),
        "channels": embedder.channels,
        "fingerprint": fingerprint(embedder),
        "class_names": list(class_names),
        "extra": extra or {},
    }
    text = json.dumps(config, indent=1, ensure_ascii=False)
    tensors = {name: value.detach().cpu().contiguous() for name, value in embedder.state_dict().items()}
    write_atomically(folder / WEIGHTS, lambda file: save_file(tensors, file, metadata={"config": text}))
    write_atomically(folder / CONFIG, lambda file: file.write_text(text + "\n", encoding="utf-8"))


def load_model(folder: str | Path) -> tuple[Embedder, dict[str, Any]]:
    """The embedder of a run directory or model folder, on the CPU in eval mode, and its configuration.

    The configuration holds `class_names`, `fingerprint`, `extra`, and under `embedder` the fields of
    `EmbedderConfig`.

    Raises:
        FileError: no model there, or one that is damaged, of a newer format, or not of this package.
    """
    file = Path(folder) / WEIGHTS
    if not file.is_file():
        raise FileError(f"no model in '{folder}': a run or model folder holds '{WEIGHTS}'")
    try:
        with safe_open(file, framework="pt") as stored:
            text = (stored.metadata() or {}).get("config")
            tensors: dict[str, Tensor] = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise FileError(
            f"'{file}' is damaged or no safetensors file ({error}); save the model again"
        ) from error
    if text is None:
        raise FileError(f"'{file}' was not saved by this package; load it with weights='{file}' instead")
    config: dict[str, Any] = json.loads(text)
    if config.get("format") != FORMAT:
        raise FileError(
            f"'{file}' has format {config.get('format')}, this version reads {FORMAT}; update lookalike"
        )
    settings = EmbedderConfig.from_dict(config["embedder"])
    with torch.random.fork_rng(devices=[]):
        backbone, _ = backbones.create(settings.backbone)
        embedder = Embedder(backbone, settings, channels=config["channels"])
    try:
        embedder.load_state_dict(tensors)
    except RuntimeError as error:
        raise FileError(
            f"'{file}' does not fit backbone '{settings.backbone}' as this version of timm builds it: "
            f"{str(error).splitlines()[-1].strip()}"
        ) from error
    return embedder.eval(), config


def fingerprint(embedder: Embedder) -> str:
    """SHA-256 (hex) of everything that decides an embedding: settings, preprocessing and weights.

    The same on every device, memory format and after saving and loading. Counters of batch norm, and where
    the weights came from, do not count.
    """
    digest = hashlib.sha256()
    settings = embedder.config.to_dict()
    for key in _SAYS_NOTHING_ABOUT_VECTORS:
        del settings[key]
    digest.update(json.dumps(settings, sort_keys=True).encode())
    for name, value in sorted(embedder.state_dict().items()):
        if not name.endswith("num_batches_tracked"):
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            data = value.detach().cpu().contiguous()
            digest.update(data.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
