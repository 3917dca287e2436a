"""A trained model as a plain timm model: a folder that `timm.create_model('local-dir:FOLDER', pretrained=True)` opens.

The projection becomes timm's classifier, the pooling timm's own, and the preprocessing its `pretrained_cfg`. That
works where timm has the same layers in the same order; what does not fit is refused, with the exports that do.
"""

import inspect
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import timm
import torch
from torch import Tensor, nn

from lookalike.errors import ArgumentError, FileError
from lookalike.export.verify import Check, accept
from lookalike.models.embedder import Embedder

POOLINGS = {"average": "avg", "maximum": "max", "average_plus_maximum": "avgmax", "catavgmax": "catavgmax"}
"""Our poolings under timm's names; timm's avgmax is half of our sum, which the classifier makes up for."""
TRANSFORMERS = {"fc_norm": False, "pool_include_prefix": False}
"""Arguments of timm's transformers by which the last norm comes before the pooling, which reads patches only."""
INSTEAD = "export it with --onnx or --pt2 instead"
CLOSE = 1e-4


def export_timm(embedder: Embedder, folder: Path, *, description: str = "", check: Check = accept) -> None:
    """Writes `config.json` and `model.safetensors` into `folder`, which must be new or hold an earlier export.

    Args:
        embedder: a trained model.
        folder: written whole or not at all.
        description: one line about the model for its `pretrained_cfg`.
        check: of a temporary folder, before it becomes `folder`.

    Raises:
        ArgumentError: timm cannot express this model; the message names the layer.
        FileError: the folder holds other files.
    """
    _check_folder(folder)
    model, arguments = build_timm(embedder)
    facts = _pretrained_cfg(embedder, description)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        timm.models.save_for_hf(
            model,
            temporary,
            model_config={"pretrained_cfg": facts},
            model_args=arguments,
            safe_serialization=True,
        )
        _complete(temporary / "config.json", model, facts, arguments)
        temporary.chmod(folder.parent.stat().st_mode)
        weights, mode = temporary / "model.safetensors", (temporary / "config.json").stat().st_mode
        weights.chmod(mode)  # safetensors makes it readable by its owner only
        check(temporary)
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def build_timm(embedder: Embedder) -> tuple[nn.Module, dict[str, Any]]:
    """The timm model that computes the embedder's embeddings from normalized images, and its arguments."""
    config = embedder.config
    if not timm.is_model(config.architecture.name):
        raise ArgumentError(f"backbone '{config.backbone}' is not one of timm's; {INSTEAD}")
    if config.preprocessing.channels != "rgb" or config.norm != "none" or config.pooling not in POOLINGS:
        norm = "" if config.norm == "none" else f" with norm '{config.norm}'"
        raise ArgumentError(
            f"timm has no pooling '{config.pooling}'{norm} (it has: {', '.join(POOLINGS)}, without norm); "
            f"{INSTEAD}, or train with model.pooling=catavgmax"
        )
    dim = config.embedding_dim or 0
    arguments = dict(config.architecture.arguments) | {"global_pool": POOLINGS[config.pooling]}
    model = _create(embedder, dim, arguments)
    tensors = {name: value.detach().cpu() for name, value in embedder.backbone.state_dict().items()}
    if dim:
        tensors |= _classifier(model, embedder)
    wanted = model.state_dict()
    differing = sorted(
        name
        for name in {*wanted, *tensors}
        if name not in wanted or name not in tensors or wanted[name].shape != tensors[name].shape
    )
    if differing:
        raise ArgumentError(
            f"timm's '{config.architecture.name}' has other layers around its pooling "
            f"({', '.join(differing[:3])}), which this model lacks; {INSTEAD}"
        )
    model.load_state_dict(tensors)
    _compare(model.eval(), embedder)
    return model, arguments


def _create(embedder: Embedder, dim: int, arguments: dict[str, Any]) -> Any:
    """The timm model, with random weights."""
    config = embedder.config
    facts = timm.get_pretrained_cfg(config.architecture.name)
    if facts is not None and facts.fixed_input_size and hasattr(embedder.backbone, "set_input_size"):
        arguments["img_size"] = config.preprocessing.size
    known = inspect.signature(type(embedder.backbone).__init__).parameters
    arguments |= {name: value for name, value in TRANSFORMERS.items() if name in known}
    try:
        with torch.random.fork_rng(devices=[]):
            return timm.create_model(config.architecture.name, pretrained=False, num_classes=dim, **arguments)
    except (AssertionError, TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(
            f"timm's '{config.architecture.name}' cannot pool by '{POOLINGS[config.pooling]}' ({error}); {INSTEAD}"
        ) from error


def _classifier(model: Any, embedder: Embedder) -> dict[str, Tensor]:
    """The projection as the tensors of timm's classifier."""
    projection: Any = embedder.projection
    name = next((path for path, module in model.named_modules() if module is model.get_classifier()), None)
    if name is None or not isinstance(model.get_classifier(), nn.Linear):
        raise ArgumentError(
            f"timm's '{embedder.config.architecture.name}' has no linear classifier; {INSTEAD}"
        )
    weight = projection.weight.detach().cpu()
    bias = torch.zeros(len(weight)) if projection.bias is None else projection.bias.detach().cpu()
    if embedder.config.pooling == "average_plus_maximum":
        weight = 2 * weight  # of half the sum
    return {f"{name}.weight": weight, f"{name}.bias": bias}


def _compare(model: nn.Module, embedder: Embedder) -> None:
    """Refuses a timm model whose arithmetic is not the embedder's, on random images."""
    size, generator = embedder.preprocessing.size, torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (2, 3, size, size), dtype=torch.uint8, generator=generator)
    with torch.inference_mode():
        ours = embedder.eval().cpu()(images)
        theirs = model(embedder.normalize_input(images))
    if theirs.shape != ours.shape or not torch.allclose(theirs, ours, atol=CLOSE * float(ours.abs().max())):
        raise ArgumentError(
            f"timm's '{embedder.config.architecture.name}' computes something else after its last stage; {INSTEAD}"
        )


def _pretrained_cfg(embedder: Embedder, description: str) -> dict[str, Any]:
    config, preprocessing = embedder.config, embedder.preprocessing
    # timm resizes to floor(size / crop_pct); the half keeps rounding away from the next whole number
    share = (
        1.0
        if preprocessing.resize == preprocessing.size
        else preprocessing.size / (preprocessing.resize + 0.5)
    )
    return {
        "input_size": [3, preprocessing.size, preprocessing.size],
        "interpolation": preprocessing.interpolation,
        "crop_pct": share,
        "crop_mode": "squash" if preprocessing.square else "center",
        "mean": list(preprocessing.mean),
        "std": list(preprocessing.std),
        "num_classes": config.embedding_dim or 0,
        "license": config.weights_license,
        "tag": "lookalike",
        "description": description,
    }


def _complete(file: Path, model: Any, facts: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Sets what older versions of timm leave out of `config.json`, and drops what belongs to the original weights."""
    config = json.loads(file.read_text(encoding="utf-8"))
    config["model_args"] = arguments
    config["num_classes"] = facts["num_classes"]
    for key in ("label_names", "label_descriptions"):
        config.pop(key, None)
    kept = {
        key: value
        for key, value in config["pretrained_cfg"].items()
        if not key.startswith("test_") and key not in ("origin_url", "paper_ids", "paper_name", "notes")
    }
    config["pretrained_cfg"] = kept | facts
    file.write_text(
        json.dumps(config, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )


def _check_folder(folder: Path) -> None:
    if folder.is_file():
        raise FileError(f"'{folder}' is a file; name a folder for the timm model")
    if folder.is_dir():
        others = {file.name for file in folder.iterdir()} - {
            "config.json",
            "model.safetensors",
            "README.md",
        }
        if others:
            raise FileError(
                f"'{folder}' holds other files ({', '.join(sorted(others)[:3])}); name a new folder"
            )
