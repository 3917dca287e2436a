"""Inception with batch norm ("BN-Inception", Inception v2): the backbone of most of the papers.

Source: Ioffe and Szegedy 2015, in the form that was converted from Caffe and that the field fine-tunes.
Parameter names are those of the commonly used file `bn_inception-52deb4733.pth`, so that it loads as it
is. Images go in as BGR on the 0-255 scale with (104, 117, 128) subtracted.

A trap of that code's history: it applies `ReLU(inplace=True)` and then goes on with the batch norm's output
under its old name, which looks as if the ReLU were skipped; whoever drops `inplace` removes every
ReLU. Here each convolution is followed by batch norm and ReLU in one function.

The network is the table below. Every block has up to four branches, concatenated in this order:
1x1; 3x3 behind a 1x1; two 3x3 behind a 1x1 ("double"); pooling, with a 1x1 unless the block halves the map.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class BlockPlan:
    """Channels of one block: `point` 0 means no 1x1 branch, `projection` 0 that the pooled map passes."""

    name: str
    point: int
    single: tuple[int, int]
    double: tuple[int, int]
    pool: Literal["average", "maximum"]
    projection: int
    stride: int = 1

    @property
    def channels_out(self) -> int:
        """Channels after the block, less those that pass through the pooling of a halving block."""
        return self.point + self.single[1] + self.double[1] + self.projection


PLAN = (
    BlockPlan("3a", 64, (64, 64), (64, 96), "average", 32),
    BlockPlan("3b", 64, (64, 96), (64, 96), "average", 64),
    BlockPlan("3c", 0, (128, 160), (64, 96), "maximum", 0, stride=2),
    BlockPlan("4a", 224, (64, 96), (96, 128), "average", 128),
    BlockPlan("4b", 192, (96, 128), (96, 128), "average", 128),
    BlockPlan("4c", 160, (128, 160), (128, 160), "average", 128),
    BlockPlan("4d", 96, (128, 192), (160, 192), "average", 128),
    BlockPlan("4e", 0, (128, 192), (192, 256), "maximum", 0, stride=2),
    BlockPlan("5a", 352, (192, 320), (160, 224), "average", 128),
    BlockPlan("5b", 352, (192, 320), (192, 224), "maximum", 128),
)
CHANNELS = 1024


class ConvNormRelu(nn.Module):
    """ReLU(batch norm(convolution)), over a convolution and a batch norm that the network owns."""

    def __init__(self, convolution: nn.Module, norm: nn.Module) -> None:
        super().__init__()
        self.convolution = convolution
        self.norm = norm

    def forward(self, maps_BFHW: Tensor) -> Tensor:
        return functional.relu(self.norm(self.convolution(maps_BFHW)))


class Block(nn.Module):
    """The branches of one `BlockPlan`, concatenated over channels."""

    def __init__(self, plan: BlockPlan, branches: list[nn.Sequential], projection: nn.Module | None) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)
        self.projection = projection
        self._plan = plan

    def forward(self, maps_BFHW: Tensor) -> Tensor:
        return torch.cat([*(branch(maps_BFHW) for branch in self.branches), self._pooled(maps_BFHW)], dim=1)

    def _pooled(self, maps_BFHW: Tensor) -> Tensor:
        if self._plan.stride == 2:
            # even maps as in the original; odd ones, on which the original cannot run, with a border
            odd = (maps_BFHW.shape[2] % 2, maps_BFHW.shape[3] % 2)
            return functional.max_pool2d(maps_BFHW, 3, stride=2, padding=odd, ceil_mode=True)
        assert self.projection is not None
        if self._plan.pool == "average":
            pooled = functional.avg_pool2d(maps_BFHW, 3, stride=1, padding=1)
        else:
            pooled = functional.max_pool2d(maps_BFHW, 3, stride=1, padding=1)
        out: Tensor = self.projection(pooled)
        return out


class BNInception(nn.Module):
    """Images (B, 3, H, W), already in its own BGR scale, to feature maps (B, 1024, H/32, W/32).

    Args:
        num_classes: width of the classifier `last_linear`; 0 leaves it out.
    """

    def __init__(self, num_classes: int = 0) -> None:
        super().__init__()
        first = nn.Sequential(
            self._unit("conv1_7x7_s2", 3, 64, kernel=7, stride=2),
            nn.MaxPool2d(3, stride=2, ceil_mode=True),
        )
        second = nn.Sequential(
            self._unit("conv2_3x3_reduce", 64, 64, kernel=1),
            self._unit("conv2_3x3", 64, 192, kernel=3),
            nn.MaxPool2d(3, stride=2, ceil_mode=True),
        )
        stages: list[tuple[str, nn.Module]] = [("conv1", first), ("conv2", second)]
        channels = 192
        for plan in PLAN:
            stages.append((f"inception_{plan.name}", self._block(plan, channels)))
            channels = plan.channels_out + (channels if plan.stride == 2 else 0)
        if num_classes:
            self.last_linear = nn.Linear(channels, num_classes)
        self.num_features = channels
        self._stages = tuple(stages)  # in a tuple: the parameters keep their flat names

    def named_stages(self) -> Iterator[tuple[str, nn.Module]]:
        """Name and module of every stage, in order."""
        yield from self._stages

    def forward_features(self, images_BCHW: Tensor) -> Tensor:
        """Feature maps, (B, 1024, H/32, W/32), each side rounded up."""
        maps = images_BCHW
        for _, stage in self._stages:
            maps = stage(maps)
        return maps

    def forward(self, images_BCHW: Tensor) -> Tensor:
        """Class scores where there is a classifier, feature maps where there is none."""
        maps = self.forward_features(images_BCHW)
        if not hasattr(self, "last_linear"):
            return maps
        scores: Tensor = self.last_linear(maps.mean(dim=(2, 3)))
        return scores

    def _unit(self, name: str, before: int, after: int, *, kernel: int, stride: int = 1) -> ConvNormRelu:
        convolution = nn.Conv2d(before, after, kernel, stride=stride, padding=kernel // 2)
        norm = nn.BatchNorm2d(after)
        self.add_module(name, convolution)
        self.add_module(f"{name}_bn", norm)
        return ConvNormRelu(convolution, norm)

    def _block(self, plan: BlockPlan, channels: int) -> Block:
        name, stride = f"inception_{plan.name}", plan.stride
        branches = []
        if plan.point:
            branches.append(nn.Sequential(self._unit(f"{name}_1x1", channels, plan.point, kernel=1)))
        narrow, wide = plan.single
        branches.append(
            nn.Sequential(
                self._unit(f"{name}_3x3_reduce", channels, narrow, kernel=1),
                self._unit(f"{name}_3x3", narrow, wide, kernel=3, stride=stride),
            )
        )
        narrow, wide = plan.double
        branches.append(
            nn.Sequential(
                self._unit(f"{name}_double_3x3_reduce", channels, narrow, kernel=1),
                self._unit(f"{name}_double_3x3_1", narrow, wide, kernel=3),
                self._unit(f"{name}_double_3x3_2", wide, wide, kernel=3, stride=stride),
            )
        )
        projection = None
        if plan.projection:
            projection = self._unit(f"{name}_pool_proj", channels, plan.projection, kernel=1)
        return Block(plan, branches, projection)
