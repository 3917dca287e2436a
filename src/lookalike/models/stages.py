"""A backbone as a chain of stages, so that its first part can be frozen and its activations kept.

Partial training runs the first stages once, stores what comes out, and trains only the rest. That needs
an exact decomposition: composing the stages must give the backbone's feature extractor, bit for bit (a
test holds every family to it). Families are told by the class of the network; a network of no known
family has no stages and can still be frozen as a whole or trained as a whole.

What is in no stage is the classifier and its neighbours: `drop_head` replaces it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Each:
    """Every child of the named module is a stage of its own."""

    child: str


Rule = tuple[tuple[str, ...] | Each, ...]

RULES: Mapping[str, Rule] = {
    "EfficientNet": (("conv_stem", "bn1"), Each("blocks"), ("conv_head", "bn2")),
    "MobileNetV3": (("conv_stem", "bn1"), Each("blocks")),
    "ResNet": (
        ("conv1", "bn1", "act1", "maxpool"),
        ("layer1",),
        ("layer2",),
        ("layer3",),
        ("layer4",),
    ),
    "ConvNeXt": (("stem",), Each("stages"), ("norm_pre",)),
    "RegNet": (("stem",), ("s1",), ("s2",), ("s3",), ("s4",), ("final_conv",)),
    "DenseNet": (Each("features"),),
    "VGG": (Each("features"),),
    "HighPerfGpuNet": (("stem",), Each("stages")),
    "InceptionV3": (
        ("Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3", "Pool1"),
        ("Conv2d_3b_1x1", "Conv2d_4a_3x3", "Pool2"),
        ("Mixed_5b",),
        ("Mixed_5c",),
        ("Mixed_5d",),
        ("Mixed_6a",),
        ("Mixed_6b",),
        ("Mixed_6c",),
        ("Mixed_6d",),
        ("Mixed_6e",),
        ("Mixed_7a",),
        ("Mixed_7b",),
        ("Mixed_7c",),
    ),
    "GoogLeNet": (
        ("conv1", "maxpool1"),
        ("conv2", "conv3", "maxpool2"),
        ("inception3a",),
        ("inception3b", "maxpool3"),
        ("inception4a",),
        ("inception4b",),
        ("inception4c",),
        ("inception4d",),
        ("inception4e", "maxpool4"),
        ("inception5a",),
        ("inception5b",),
    ),
}


class TokenStage(nn.Module):
    """A vision transformer up to its first block: patches, class token, positions.

    The parameters are the transformer's own, so that freezing this stage freezes them there.
    """

    def __init__(self, transformer: Any) -> None:
        super().__init__()
        self._transformer = (transformer,)  # in a tuple: not registered as a child a second time
        self.patch_embed = transformer.patch_embed
        self.norm_pre = transformer.norm_pre
        for name in ("cls_token", "reg_token", "pos_embed"):
            setattr(self, name, getattr(transformer, name, None))

    def forward(self, images: Tensor) -> Tensor:
        (transformer,) = self._transformer
        tokens = transformer.patch_drop(transformer._pos_embed(self.patch_embed(images)))
        out: Tensor = self.norm_pre(tokens)
        return out


def stages_of(backbone: nn.Module) -> tuple[tuple[str, nn.Module], ...] | None:
    """Named stages whose composition is the feature extractor, or None for an unknown family.

    The modules are the backbone's own (shared, not copied): freezing or training a stage does so in the
    backbone.
    """
    own = getattr(backbone, "named_stages", None)
    if own is not None:
        return tuple(own())
    family = type(backbone).__name__
    if family == "VisionTransformer":
        blocks: Any = backbone.blocks
        named = [(f"blocks.{index}", block) for index, block in enumerate(blocks)]
        last: Any = backbone.norm
        return (("tokens", TokenStage(backbone)), *named, ("norm", last))
    if family not in RULES:
        return None
    stages: list[tuple[str, nn.Module]] = []
    for step in RULES[family]:
        if isinstance(step, Each):
            inner = backbone.get_submodule(step.child).named_children()
            stages += [(f"{step.child}.{name}", child) for name, child in inner]
        else:
            parts = [backbone.get_submodule(name) for name in step]
            stages.append((step[0], parts[0] if len(parts) == 1 else nn.Sequential(*parts)))
    return tuple(stages)


def drop_head(backbone: nn.Module) -> tuple[str, ...]:
    """Replaces every child that no stage uses (classifier, its pooling and norms) by `Identity`.

    Returns:
        The names of the children that were replaced; weights under these names need not be loaded.
    """
    stages = stages_of(backbone)
    if stages is None:
        return ()
    used = {id(module) for _, stage in stages for module in stage.modules()}
    used |= {id(backbone.get_submodule(step.child)) for step in _each_steps(backbone)}
    keep = ("blocks", "patch_drop", "pos_drop") if type(backbone).__name__ == "VisionTransformer" else ()
    dropped = []
    for name, child in backbone.named_children():
        if id(child) not in used and name not in keep:
            setattr(backbone, name, nn.Identity())
            dropped.append(name)
    return tuple(dropped)


def _each_steps(backbone: nn.Module) -> list[Each]:
    return [step for step in RULES.get(type(backbone).__name__, ()) if isinstance(step, Each)]


@dataclass(frozen=True)
class StageCost:
    """What one stage costs for one image, and what keeping its output would take.

    `macs` counts multiply-accumulates of convolutions and linear layers; `output` is the shape of one
    image's activation after the stage.
    """

    name: str
    parameters: int
    macs: int
    output: tuple[int, ...]


def stage_costs(stages: tuple[tuple[str, nn.Module], ...], size: int) -> list[StageCost]:
    """Parameters, multiply-accumulates and output shape of every stage for a `size` x `size` image.

    One forward of one image, in eval mode, without gradients; modes are put back afterwards.
    """
    counted = [0]

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if isinstance(module, nn.Conv2d):
            positions = output.shape[-1] * output.shape[-2]
            counted[0] += positions * module.weight.numel()
        elif isinstance(module, nn.Linear):
            counted[0] += output.numel() // module.out_features * module.weight.numel()

    was_training = [(module, module.training) for _, stage in stages for module in stage.modules()]
    handles = [module.register_forward_hook(count) for module in {module for module, _ in was_training}]
    weight = next(parameter for _, stage in stages for parameter in stage.parameters())
    costs = []
    try:
        activation = torch.zeros(1, 3, size, size, device=weight.device, dtype=weight.dtype)
        with torch.no_grad():
            for name, stage in stages:
                counted[0] = 0
                activation = stage.eval()(activation)
                parameters = sum(parameter.numel() for parameter in stage.parameters())
                costs.append(StageCost(name, parameters, counted[0], tuple(activation.shape[1:])))
    finally:
        for handle in handles:
            handle.remove()
        for module, training in was_training:
            module.training = training
    return costs
