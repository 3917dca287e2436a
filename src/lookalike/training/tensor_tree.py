"""Nested dictionaries of tensors and plain values on disk, without pickle.

A training state (optimizer moments, proxies, history) is a tree of dictionaries, lists, tensors, numbers
and strings. `save_tree` writes the tensors as `NAME.safetensors` and everything else as `NAME.json`, in
which a tensor is the word `{"tensor": "path.in.the.tree"}`. Both are written under a temporary name and
renamed, the JSON last, so an interrupted write leaves the previous state whole.
"""

import json
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from lookalike.errors import FileError
from lookalike.utils.io import write_atomically

_KEY = "tensor"


def save_tree(path: Path, tree: dict[str, Any]) -> None:
    """Writes `tree` as `path`.safetensors and `path`.json.

    The JSON names the tensor file that belongs to it, and each save uses a new one, so the pair on disk
    always fits together; the older tensor file is removed last.
    """
    tensors: dict[str, Tensor] = {}
    plain = _detach(tree, "", tensors)
    previous = _tensor_file(path)
    name = f"{path.name}.a.safetensors"
    if previous is not None and previous.name == name:
        name = f"{path.name}.b.safetensors"
    write_atomically(path.with_name(name), lambda file: save_file(tensors, file))
    text = json.dumps({"tensors": name, "tree": plain})
    write_atomically(path.with_suffix(".json"), lambda file: file.write_text(text))
    if previous is not None:
        previous.unlink(missing_ok=True)


def load_tree(path: Path) -> dict[str, Any]:
    """The tree that `save_tree(path, ...)` wrote; tensors on the CPU.

    Raises:
        FileError: one of the two files is missing or damaged.
    """
    try:
        stored = json.loads(path.with_suffix(".json").read_text())
        tensors = load_file(path.with_name(stored["tensors"]))
        tree: dict[str, Any] = _attach(stored["tree"], tensors)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(f"no readable state at '{path}.json': {error}") from error
    return tree


def _tensor_file(path: Path) -> Path | None:
    try:
        return path.with_name(json.loads(path.with_suffix(".json").read_text())["tensors"])
    except (OSError, ValueError, KeyError):
        return None


def _detach(node: Any, place: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(node, Tensor):
        tensors[place] = node.detach().cpu().contiguous().clone()
        return {_KEY: place}
    if isinstance(node, dict):
        return {"dict": [[key, _detach(value, f"{place}.{key}", tensors)] for key, value in node.items()]}
    if isinstance(node, list | tuple):
        return [_detach(value, f"{place}.{i}", tensors) for i, value in enumerate(node)]
    if node is None or isinstance(node, bool | int | float | str):
        return node
    raise TypeError(
        f"a state holds tensors, numbers, words, lists and dictionaries, not {type(node).__name__}"
    )


def _attach(node: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(node, dict):
        if _KEY in node:
            return tensors[node[_KEY]]
        return {key: _attach(value, tensors) for key, value in node["dict"]}
    if isinstance(node, list):
        return [_attach(value, tensors) for value in node]
    return node


def clone_state(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A state_dict whose tensors no longer share memory with the module."""
    return {key: value.detach().clone() for key, value in state.items()}
