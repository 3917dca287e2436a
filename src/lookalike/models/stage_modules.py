"""Modules that stages of a backbone are made of: all before the first link, and calls with more than the activation."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from lookalike.models.trace import features


class Stem(nn.Module):
    """A backbone up to the input of its first stage module; shares the backbone's parameters.

    Runs the backbone's own feature extractor and leaves it when the named module is reached.
    """

    def __init__(self, backbone: nn.Module, links: Sequence[str]) -> None:
        super().__init__()
        self._backbone = (backbone,)  # in a tuple: not registered as a child a second time
        self._first = links[0]
        _share(self, backbone, "", tuple(links))

    def forward(self, images: Tensor) -> Tensor:
        (backbone,) = self._backbone

        def leave(module: nn.Module, args: tuple[Any, ...]) -> None:
            raise _ReachedError(args[0])

        handle = backbone.get_submodule(self._first).register_forward_pre_hook(leave)
        try:
            features(backbone, images)
        except _ReachedError as reached:
            return reached.activation
        finally:
            handle.remove()
        raise AssertionError(f"module '{self._first}' was not called")


class _ReachedError(Exception):
    def __init__(self, activation: Tensor) -> None:
        self.activation = activation


def _share(stem: nn.Module, module: nn.Module, prefix: str, taken: tuple[str, ...]) -> None:
    """Registers on `stem` every parameter, buffer and child of `module` that is in no taken path."""
    for name, parameter in module.named_parameters(recurse=False):
        stem.register_parameter(f"{prefix}{name}".replace(".", "_"), parameter)
    for name, child in module.named_children():
        path = f"{prefix}{name}"
        if path in taken:
            continue
        if any(other.startswith(f"{path}.") for other in taken):
            _share(stem, child, f"{path}.", taken)
        else:
            stem.add_module(path.replace(".", "_"), child)


class CalledWith(nn.Module):
    """A module called with further arguments that depend on the size of the images only, such as rotary positions."""

    def __init__(self, module: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        super().__init__()
        self.module = module
        self._args, self._options = args, options

    def forward(self, activation: Tensor) -> Tensor:
        result: Tensor = self.module(activation, *self._args, **self._options)
        return result
