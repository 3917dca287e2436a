"""A backbone as a chain of stages, so that its first stages can be frozen and their activations cached.

Partial training runs the first stages once, caches their output, and trains only the rest. That needs an
exact decomposition: composing the stages gives the backbone's feature extractor, bit for bit. The chain is read
from a trace of the network, not from a table of families:

1. From the result backwards, every module that returned exactly what the next one received is a link.
2. What lies before the first link (patches, class token, positions of a transformer) is one stage, the `Stem`.
3. A link with more than half of the multiply-accumulates is opened into the chain of its own modules.
4. A link without multiply-accumulates (norm, activation, pooling) belongs to the stage before it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from lookalike.models.stage_modules import CalledWith, Stem
from lookalike.models.trace import Call, Trace, features, on_meta, parameter_type, trace


@dataclass(frozen=True)
class StageLayout:
    """Where the stages of a backbone are: paths of modules, so that it fits every copy of the backbone.

    Attributes:
        stem: whether the first stage is a `Stem`, whose entry in `stages` is empty.
        stages: paths of the modules of each stage, in order.
        with_extras: paths of modules that are called with more than the activation.
    """

    stem: bool
    stages: tuple[tuple[str, ...], ...]
    with_extras: frozenset[str]


@dataclass(frozen=True)
class StageCost:
    """What one stage costs for one image: multiply-accumulates, and the shape of its output to be cached."""

    name: str
    parameters: int
    macs: int
    output: tuple[int, ...]


def find_layout(backbone: nn.Module, size: int) -> StageLayout | None:
    """The stages of a backbone for `size` x `size` images, or None where the trace shows no chain."""
    network = on_meta(backbone)
    images = torch.empty(1, 3, size, size, device="meta", dtype=parameter_type(network))
    found = trace(network, features, images)
    links, complete = found.chain()
    if not links:
        return None
    total = count_macs(lambda: features(network, images))
    with_extras = frozenset(call.path for call in links if call.extras)
    macs: dict[str, int] = {}
    opened: list[Call] = []
    for link in links:
        opened += _opened(link, found, network, total, macs)
    stages: list[list[str]] = [] if complete else [[]]
    for link in opened:
        if stages and macs[link.path] == 0:
            stages[-1].append(link.path)
        else:
            stages.append([link.path])
    return StageLayout(not complete, tuple(tuple(paths) for paths in stages), with_extras)


def _opened(link: Call, found: Trace, network: nn.Module, total: int, macs: dict[str, int]) -> list[Call]:
    """The link, or the links inside it if it holds more than half of the arithmetic; notes the macs of each."""
    module: Any = network.get_submodule(link.path)
    # with extras the arithmetic of a call alone is not known; a block of that kind is never empty and never opened
    macs[link.path] = 1 if link.extras else count_macs(lambda: module(link.source))
    if macs[link.path] * 2 > total and not link.extras:
        inner, complete = found.chain(link)
        if complete and len(inner) > 1 and not any(call.extras for call in inner):
            return [deeper for call in inner for deeper in _opened(call, found, network, total, macs)]
    return [link]


def count_macs(run: Callable[[], object]) -> int:
    """Multiply-accumulates of a computation, as torch counts them (products of matrices and convolutions)."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops()) // 2


Extras = dict[str, tuple[tuple[Any, ...], dict[str, Any]]]


def find_extras(backbone: nn.Module, layout: StageLayout, size: int) -> Extras:
    """The further arguments of the modules that have some, for images of this size, on the backbone's device."""
    extras: Extras = {}

    def keep(path: str) -> Callable[..., None]:
        def note(module: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> None:
            extras[path] = (args[1:], options)

        return note

    handles = [
        backbone.get_submodule(path).register_forward_pre_hook(keep(path), with_kwargs=True)
        for path in layout.with_extras
    ]
    modes = [(module, module.training) for module in backbone.modules()]
    weight = next(backbone.parameters())
    try:
        with torch.inference_mode(False), torch.no_grad():  # what is kept is trained with later
            features(backbone.eval(), torch.zeros(1, 3, size, size, device=weight.device, dtype=weight.dtype))
    finally:
        for handle in handles:
            handle.remove()
        for module, training in modes:
            module.training = training
    return extras


def build_stages(
    backbone: nn.Module, layout: StageLayout, extras: Extras
) -> tuple[tuple[str, nn.Module], ...]:
    """Name and module of every stage; the modules are the backbone's own, shared and not copied."""
    named: list[tuple[str, nn.Module]] = []
    links = [path for paths in layout.stages for path in paths]
    for number, paths in enumerate(layout.stages):
        modules: list[nn.Module] = []
        if layout.stem and number == 0:
            modules.append(Stem(backbone, links))
        for path in paths:
            module = backbone.get_submodule(path)
            modules.append(CalledWith(module, *extras[path]) if path in layout.with_extras else module)
        name = paths[0] if paths and not (layout.stem and number == 0) else "stem"
        named.append((name, modules[0] if len(modules) == 1 else nn.Sequential(*modules)))
    return tuple(named)


def stage_costs(backbone: nn.Module, layout: StageLayout, size: int) -> list[StageCost]:
    """Parameters, multiply-accumulates and output shape of every stage for a `size` x `size` image."""
    network = on_meta(backbone)
    extras = find_extras(network, layout, size) if layout.with_extras else {}
    activation = torch.empty(1, 3, size, size, device="meta", dtype=parameter_type(network))
    costs = []
    for name, stage in build_stages(network, layout, extras):
        given = activation
        with torch.no_grad():
            activation = stage(given)
        macs = count_macs(lambda stage=stage, given=given: stage(given))  # type: ignore[misc]
        parameters = sum(parameter.numel() for parameter in stage.parameters())
        costs.append(StageCost(name, parameters, macs, tuple(activation.shape[1:])))
    return costs


def unused_children(backbone: nn.Module, size: int) -> list[str]:
    """Names of the children that the feature extractor never uses: classifier, its pooling and norms.

    A child is unused if it is never called and none of its parameters has any influence on the features.
    """
    network = on_meta(backbone).requires_grad_(True)
    called: set[str] = set()
    handles = [
        child.register_forward_pre_hook(lambda *_, name=name: called.add(name))
        for name, child in network.named_children()
    ]
    with torch.enable_grad():
        loss: Any = features(network, torch.empty(1, 3, size, size, device="meta")).sum()
        loss.backward()
    for handle in handles:
        handle.remove()
    return [
        name
        for name, child in network.named_children()
        if name not in called
        and any(True for _ in child.parameters())
        and all(parameter.grad is None for parameter in child.parameters())
    ]
