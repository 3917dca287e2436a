"""Nested dictionaries of tensors and plain values on disk, without pickle.

A training state (optimizer moments, proxies, history) is a tree of dictionaries, lists, tensors, numbers
and strings. `save_tree` writes the tensors as `NAME.a.safetensors` or `NAME.b.safetensors`, in turn, and everything
else as `NAME.json`, in which a tensor is `{"tensor": "path.in.the.tree"}`. The JSON is written last, names the tensor
file that belongs to it and holds checksums of both, so an interrupted write leaves the previous state.
"""

from pathlib import Path
from typing import Any

from torch import Tensor

from lookalike.errors import FileError
from lookalike.utils.hashing import checksum
from lookalike.utils.io import crc32_of_text, os_errors, read_json, to_json, write_text
from lookalike.utils.tensor_file import REMEDY, load_tensors, save_tensors

_KEY = "tensor"


def save_tree(path: Path, tree: dict[str, Any]) -> None:
    """Writes `tree` as files that begin with `path`.

    Raises:
        FileError: a file cannot be written; the previous tree is still there.
    """
    tensors: dict[str, Tensor] = {}
    plain = to_json(_detach(tree, "", tensors))
    previous = _tensor_file(path)
    file = path.with_name(f"{path.name}.a.safetensors")
    if previous == file:
        file = path.with_name(f"{path.name}.b.safetensors")
    save_tensors(file, tensors)
    head = {"tensors": file.name, "crc32": checksum(file), "tree_crc32": crc32_of_text(plain)}
    with os_errors("write", path.with_suffix(".json"), REMEDY):
        write_text(path.with_suffix(".json"), f'{to_json(head)[:-1]}, "tree": {plain}}}')
    for name in ("a", "b"):
        other = path.with_name(f"{path.name}.{name}.safetensors")
        if other != file:
            other.unlink(missing_ok=True)


def load_tree(path: Path) -> dict[str, Any]:
    """The tree that `save_tree(path, ...)` wrote; tensors on the CPU.

    Raises:
        FileError: one of the two files is missing or damaged.
    """
    file = path.with_suffix(".json")
    remedy = "the run cannot be resumed from it; train again with --overwrite"
    try:
        stored = read_json(file)
        if crc32_of_text(to_json(stored["tree"])) != stored["tree_crc32"]:
            raise FileError(f"'{file}' is damaged: its checksum is not the one that was written")
        tensors = load_tensors(path.with_name(stored["tensors"]), crc32=stored["crc32"])
        tree: dict[str, Any] = _attach(stored["tree"], tensors)
    except FileError as error:
        raise FileError(f"{error}; {remedy}") from error
    except (KeyError, TypeError) as error:
        raise FileError(f"'{file}' is no training state of this version; {remedy}") from error
    return tree


def _tensor_file(path: Path) -> Path | None:
    try:
        return path.with_name(read_json(path.with_suffix(".json"))["tensors"])
    except (FileError, KeyError, TypeError):
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
