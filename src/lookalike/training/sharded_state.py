"""The training state of sharded proxies on disk: rows of classes in one file per process, the rest in one tree.

    training_state/select.json, select.a.safetensors     what is the same in each process
    training_state/select-epoch-7/classes-0.safetensors  proxies and their moments, from class 0 on

The tree names the folder of rows that belongs to it and holds the checksums of its files. It is written when every
process has written its rows, so a run that is killed at any moment leaves a whole state. Any number of processes can
continue from it: each reads the rows of its own classes.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lookalike.losses.sharded import Sharded
from lookalike.training.tensor_tree import load_tree, save_tree
from lookalike.utils.hashing import checksum
from lookalike.utils.tensor_file import load_rows, save_tensors

_FILE = "classes-{first}.safetensors"


def save_sharded(path: Path, state: dict[str, Any], loss: Sharded, *, name: str) -> None:
    """Writes `state` as the tree `path` and the folder `path`-`name`; every process calls it.

    Args:
        state: of a `TrainingState` whose second optimizer is the proxies'.
    """
    folder, is_main_process = path.with_name(f"{path.name}-{name}"), loss.processes.rank == 0
    if is_main_process:
        shutil.rmtree(folder, ignore_errors=True)  # left by a run that was killed here
    loss.processes.barrier()
    proxies, rows = {"loss": state["loss"], "optimizer": state["optimizers"][1]}, {}
    for place, tensor in _tensors(proxies):
        if _is_by_class(place, tensor, loss):
            rows[place] = tensor.reshape(loss.end - loss.first, -1)
    shards = _save_shards(folder, rows, loss)
    if is_main_process:
        shapes = {place: list(tensor.shape[1:]) for place, tensor in _tensors(proxies) if place in rows}
        others = {**state, "loss": {}, "optimizers": state["optimizers"][:1]}
        proxies = _without(proxies, rows)
        facts = {"folder": folder.name, "shards": shards, "shapes": shapes, "proxies": proxies}
        save_tree(path, {**facts, **others})
        for old in path.parent.glob(f"{path.name}-*"):
            if old.is_dir() and old != folder:
                shutil.rmtree(old)


def load_sharded(path: Path, loss: Sharded) -> dict[str, Any]:
    """The state that `save_sharded` wrote, with the rows of this process's classes.

    Raises:
        FileError: a file is missing or damaged.
    """
    tree = load_tree(path)
    shapes = tree.pop("shapes")
    found = _load_shards(path.with_name(tree.pop("folder")), tree.pop("shards"), loss)
    rows = {place: found[place].reshape(-1, *shape) for place, shape in shapes.items()}
    proxies = _with(tree.pop("proxies"), rows)
    return {**tree, "loss": proxies["loss"], "optimizers": [*tree["optimizers"], proxies["optimizer"]]}


def _save_shards(folder: Path, rows: dict[str, Tensor], loss: Sharded) -> list[list[int]]:
    """Writes the rows of this process's classes; returns first class, end and checksum of the files of all."""
    file = folder / _FILE.format(first=loss.first)
    save_tensors(file, {place: tensor.detach().cpu().contiguous() for place, tensor in rows.items()})
    facts = torch.tensor([[loss.first, loss.end, checksum(file)]], device=loss.proxies.device)
    shards: list[list[int]] = loss.processes.gather(facts).tolist()
    return shards


def _load_shards(folder: Path, shards: list[list[int]], loss: Sharded) -> dict[str, Tensor]:
    """The rows of this process's classes, from the files of any number of processes."""
    parts: dict[str, list[Tensor]] = {}
    for first, end, crc32 in shards:
        mine = slice(max(first, loss.first) - first, min(end, loss.end) - first)
        if mine.start < mine.stop:
            for place, tensor in load_rows(folder / _FILE.format(first=first), mine, crc32=crc32).items():
                parts.setdefault(place, []).append(tensor)
    return {place: torch.cat(found) for place, found in parts.items()}


def _is_by_class(place: str, tensor: Tensor, loss: Sharded) -> bool:
    """Whether a tensor is the proxies, or a moment of them by row; other tensors may have as many rows by chance."""
    (index,) = (i for i, parameter in enumerate(loss.parameters()) if parameter is loss.proxies)
    (name,) = (name for name, parameter in loss.named_parameters() if parameter is loss.proxies)
    if place == f"/loss/{name}":
        return True
    return place.startswith(f"/optimizer/state/{index}/") and tensor.shape[:1] == loss.proxies.shape[:1]


def _tensors(node: Any, place: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every tensor in nested dictionaries, with its path."""
    if isinstance(node, Tensor):
        yield place, node
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from _tensors(value, f"{place}/{key}")


def _without(node: Any, rows: dict[str, Tensor], place: str = "") -> Any:
    """The tree with None for each tensor in `rows`."""
    if isinstance(node, dict):
        return {key: _without(value, rows, f"{place}/{key}") for key, value in node.items()}
    return None if place in rows else node


def _with(node: Any, rows: dict[str, Tensor], place: str = "") -> Any:
    """The tree with the tensors of `rows` in their places."""
    if isinstance(node, dict):
        return {key: _with(value, rows, f"{place}/{key}") for key, value in node.items()}
    return rows.get(place, node)
