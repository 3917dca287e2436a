"""Which module of a network reads which module's output, found by running the network once on meta tensors.

Meta tensors have shapes and no values, so a trace costs milliseconds and no memory, whatever the size of the
network. Two modules are linked if the very tensor that one returned is what the other receives, unchanged: code
between them, such as adding a position embedding, breaks the link. `stages` finds the chain of stages from
this, `fuse` the batch norms that directly follow a convolution.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Call:
    """One call of a module during the trace.

    Attributes:
        path: name of the module in the network.
        start, end: when the call began and ended, counted in events; a nested call lies between.
        source: the tensor that it read as its first argument, or None.
        result: the tensor that it returned, or None.
        extras: whether it was given any other argument that is not None.
        source_version, result_version: how often those tensors had been written to at that time.
    """

    path: str
    start: int
    end: int
    source: Tensor | None
    result: Tensor | None
    extras: bool
    source_version: int
    result_version: int

    @property
    def does_nothing(self) -> bool:
        """Whether it returned what it was given, and did not write to it."""
        return self.source is self.result and self.source_version == self.result_version


@dataclass(frozen=True)
class Trace:
    """All calls of a run, in the order in which they ended, with what went in and what came out."""

    calls: tuple[Call, ...]
    source: Tensor
    result: Tensor

    def producer(self, tensor: Tensor, version: int, *, before: int, after: int = -1) -> Call | None:
        """The outermost call within (after, before) that returned this tensor as it is, and did something."""
        found = [
            call
            for call in self.calls
            if call.result is tensor
            and not call.does_nothing
            and call.result_version == version
            and after < call.start
            and call.end < before
        ]
        return max(found, key=lambda call: call.end, default=None)

    def innermost_producer(self, reader: Call) -> Call | None:
        """The innermost call that returned what `reader` reads, if nothing has written to it since."""
        found = [
            call
            for call in self.calls
            if call.result is reader.source
            and not call.does_nothing
            and call.result_version == reader.source_version
            and call.end < reader.start
        ]
        return min(found, key=lambda call: call.end, default=None)

    def chain(self, within: Call | None = None) -> tuple[list[Call], bool]:
        """The calls that lead one to the next up to the result (of the network, or of one call).

        Returns:
            The calls, first to last, and whether the first of them reads the input itself.
        """
        if within is None:
            tensor, version = self.result, self.result._version
            after, before, source = -1, len(self.calls) * 2 + 1, self.source
        else:
            if within.result is None or within.source is None:
                return [], False
            tensor, version = within.result, within.result_version
            after, before, source = within.start, within.end, within.source
        calls: list[Call] = []
        while tensor is not source:
            call = self.producer(tensor, version, before=before, after=after)
            if call is None or call.source is None:
                return calls, False
            calls.insert(0, call)
            tensor, version, before = call.source, call.source_version, call.start
        return calls, True


def on_meta(network: nn.Module) -> nn.Module:
    """A copy of `network` in evaluation mode whose parameters and buffers are meta tensors."""
    memo: dict[int, Any] = {}
    for parameter in network.parameters():
        memo[id(parameter)] = nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)
    for buffer in network.buffers():
        memo[id(buffer)] = buffer.detach().to("meta")
    return copy.deepcopy(network, memo).eval()


def trace(network: nn.Module, run: Callable[[nn.Module, Tensor], Tensor], images: Tensor) -> Trace:
    """Runs `run(network, images)` and records the calls of its modules.

    Args:
        network: in evaluation mode, on meta.
        run: the part of the network's work that is of interest, such as its feature extractor.
        images: a batch of one, on meta.
    """
    clock = 0
    open_calls: dict[str, tuple[int, Tensor | None, bool, int]] = {}
    calls: list[Call] = []

    def tick() -> int:
        nonlocal clock
        clock += 1
        return clock

    def watch(path: str, module: nn.Module) -> list[Any]:
        def before(_: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> None:
            source = args[0] if args and isinstance(args[0], Tensor) else None
            extras = any(value is not None for value in (*args[1:], *options.values()))
            open_calls[path] = (tick(), source, extras, -1 if source is None else source._version)

        def after(_: nn.Module, args: tuple[Any, ...], options: dict[str, Any], output: Any) -> None:
            start, source, extras, version = open_calls.pop(path)
            result = output if isinstance(output, Tensor) else None
            result_version = -1 if result is None else result._version
            calls.append(Call(path, start, tick(), source, result, extras, version, result_version))

        return [
            module.register_forward_pre_hook(before, with_kwargs=True),
            module.register_forward_hook(after, with_kwargs=True),
        ]

    handles = [handle for path, module in network.named_modules() if path for handle in watch(path, module)]
    try:
        with torch.inference_mode(False), torch.no_grad():
            images = images.clone()  # inference tensors, of a caller in inference mode, count no versions
            result = run(network, images)
    finally:
        for handle in handles:
            handle.remove()
    return Trace(tuple(calls), images, result)


def features(backbone: nn.Module, images: Tensor) -> Tensor:
    """What a backbone's feature extractor makes of normalized images: `forward_features`, else its forward."""
    extract: Any = getattr(backbone, "forward_features", backbone)
    result: Tensor = extract(images)
    return result


def parameter_type(network: nn.Module) -> torch.dtype:
    """The number type of a network's parameters; float32 where it has none."""
    return next((parameter.dtype for parameter in network.parameters()), torch.float32)
