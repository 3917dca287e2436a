"""The same network, faster, for whatever no longer trains.

In evaluation mode a batch norm is a fixed scale and shift, so it folds into the convolution before it:

    scale * (W x - mean) / sqrt(var + eps) + shift  =  (s W) x + (shift - s mean),   s = scale / sqrt(var + eps)

and convolutions on a CPU run faster on channels-last activations. Together they embed about twice as many
images a second (docs/performance.md), with the same numbers up to float32 rounding.
"""

import copy
from itertools import pairwise
from typing import TypeVar

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import fuse_conv_bn_eval

Module = TypeVar("Module", bound=nn.Module)


def fuse_for_inference(module: Module) -> Module:
    """A copy of `module` in evaluation mode, batch norms folded into convolutions, channels last.

    `module` itself stays as it is. A batch norm is folded where it directly follows a convolution of its
    width among the children of one module, which is how every family in `stages.RULES` is written (a test
    compares each with its copy); others stay.
    """
    fast = copy.deepcopy(module).eval()
    for parent in list(fast.modules()):
        _fold_children(parent)
    return fast.to(memory_format=torch.channels_last)


def _fold_children(parent: nn.Module) -> None:
    children = list(parent.named_children())
    for (name, convolution), (norm_name, norm) in pairwise(children):
        if (
            isinstance(convolution, nn.Conv2d)
            and isinstance(norm, _BatchNorm)
            and norm.num_features == convolution.out_channels
            and norm.running_mean is not None
        ):
            setattr(parent, name, fuse_conv_bn_eval(convolution, norm))
            setattr(parent, norm_name, getattr(norm, "act", nn.Identity()))  # timm's norms may end in a ReLU
